// Descriptors that one process gives to another, by a thread of its own.
#include "platform/descriptor_server.hpp"
#include "open_descriptors.hpp"
#include "platform/byte_stream.hpp"
#include "support/unit.hpp"

#include <atomic>
#include <thread>

using namespace gpurun::platform;
using gpurun::base::Error;
using gpurun::base::Result;
using gpurun::base::Status;
using gpurun::test::must;

namespace {

// Gives its file for even numbers, and none for odd ones.
struct Served {
    Pipe file = must(create_pipe());
    std::atomic<int> asked{0};
    std::unique_ptr<DescriptorServer> server = must(DescriptorServer::start([this](uint64_t number) {
        ++asked;
        if (number % 2 != 0)
            return Result<OfferedDescriptor>(Error{Status::kBuffer, "odd numbers have none"});
        return Result<OfferedDescriptor>(
            OfferedDescriptor{UniqueFd(::dup(file.read_end.get())), {number, number + 1, number + 2}});
    }));
};

} // namespace

TEST_SUITE_BEGIN("descriptor server");

TEST_CASE("who asks gets a descriptor and what is said of it, as often as it likes") {
    Served served;
    const size_t before = open_descriptors();
    {
        DescriptorClient client = must(DescriptorClient::connect(served.server->address()));
        for (uint64_t number = 0; number < 2000; number += 2) {
            const OfferedDescriptor got = must(client.ask(number));
            REQUIRE(same_file(got.fd.get(), served.file.read_end.get()));
            REQUIRE(got.facts == std::array<uint64_t, 3>{number, number + 1, number + 2});
        }
    }
    served.server.reset();
    CHECK(open_descriptors() == before - 2); // its listener and its event
}

TEST_CASE("what it has none for is an error, and it may be asked again") {
    Served served;
    DescriptorClient client = must(DescriptorClient::connect(served.server->address()));
    auto refused = client.ask(1);
    REQUIRE(!refused);
    CHECK(refused.error().status == Status::kBuffer);
    CHECK(refused.error().detail == "odd numbers have none");
    CHECK(static_cast<bool>(client.ask(2)));
}

TEST_CASE("several ask at a time") {
    Served served;
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i)
        threads.emplace_back([&] {
            DescriptorClient client = must(DescriptorClient::connect(served.server->address()));
            for (int each = 0; each < 100; ++each)
                (void)must(client.ask(4));
        });
    for (std::thread& each : threads)
        each.join();
    CHECK(served.asked == 400);
}

TEST_CASE("a stranger, who does not know the key, gets nothing, and others are served") {
    Served served;
    DescriptorAddress guessed = served.server->address();
    guessed.key ^= 1;
    DescriptorClient stranger = must(DescriptorClient::connect(guessed));
    CHECK_STATUS(stranger.ask(2), Status::kSystem);
    CHECK(served.asked == 0);
    DescriptorClient client = must(DescriptorClient::connect(served.server->address()));
    CHECK(static_cast<bool>(client.ask(2)));
}

TEST_CASE("a server that has ended is an error, also for who has spoken to it") {
    Served served;
    const DescriptorAddress address = served.server->address();
    DescriptorClient client = must(DescriptorClient::connect(address));
    served.server.reset();
    CHECK(!client.ask(2));
    auto late = DescriptorClient::connect(address);
    REQUIRE(!late);
    CHECK(late.error().detail.find("has ended") != std::string::npos);
}
