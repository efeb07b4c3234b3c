// Messages between two ends of a real TCP connection, and what a stranger may send.
#include "node_link.hpp"
#include "platform/byte_stream.hpp"
#include "platform/tcp.hpp"
#include "support/unit.hpp"

#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

namespace gpurun::test::node_link {

using namespace launcher;
using namespace platform;

namespace {

constexpr size_t kMost = 1000;

struct Heard : NodeLink::Observer {
    std::vector<std::pair<uint32_t, std::string>> messages;
    std::optional<std::string> ended;
    uint32_t refused = 0; // a kind that does not belong there

    bool heard(uint32_t kind, std::string_view message) override {
        if (kind == refused)
            return false;
        messages.emplace_back(kind, message);
        return true;
    }
    void link_ended(const std::string& why) override { ended = why; }
};

// One end is a link; the other one, what a test makes of it.
struct Connection {
    Connection() {
        TcpListener listener = must(TcpListener::create());
        other = must(call_tcp("127.0.0.1", listener.port));
        Watch called(*loop, listener.fd.get(), [&] { own = must(listener.accept()); });
        called.wait_for(Ready::kReadable);
        while (!own)
            REQUIRE_OK(loop->run_once());
        called.stop();
        REQUIRE_OK(is_connected(other.get()));
        link = std::make_unique<NodeLink>(*loop, std::move(own), here, kMost);
    }
    void run_until(const std::function<bool()>& done) const {
        while (!done())
            REQUIRE_OK(loop->run_once());
    }
    void say(std::string_view bytes) const { write_all(other.get(), bytes); }

    std::unique_ptr<EventLoop> loop = must(EventLoop::create());
    Heard here;
    UniqueFd own;
    UniqueFd other;
    std::unique_ptr<NodeLink> link;
};

std::string frame(uint32_t kind, uint32_t bytes) {
    std::string text(8, '\0');
    std::memcpy(text.data(), &kind, 4);
    std::memcpy(text.data() + 4, &bytes, 4);
    return text;
}

} // namespace

TEST_SUITE_BEGIN("node link");

TEST_CASE("messages arrive whole and in order, however they are cut") {
    Connection connection;
    const std::string all = frame(1, 3) + "abc" + frame(2, 0) + frame(3, 2) + "de";
    for (const char each : all) {
        connection.say(std::string_view(&each, 1));
        REQUIRE_OK(connection.loop->run_once());
    }
    connection.run_until([&] { return connection.here.messages.size() == 3; });
    using Messages = std::vector<std::pair<uint32_t, std::string>>;
    CHECK(connection.here.messages == Messages{{1, "abc"}, {2, ""}, {3, "de"}});
}

TEST_CASE("much that both send at once arrives") {
    Connection connection;
    Heard there;
    NodeLink back(*connection.loop, std::move(connection.other), there, kMost);
    const std::string message(kMost, 'x');
    constexpr size_t kNumber = 60'000; // 60 MB each way, more than the system keeps
    for (size_t i = 0; i < kNumber; ++i) {
        connection.link->send(7, message);
        back.send(8, message);
    }
    connection.run_until(
        [&] { return there.messages.size() == kNumber && connection.here.messages.size() == kNumber; });
    CHECK(there.messages.back().first == 7);
}

TEST_CASE("an end that hangs up in order is told from one that breaks off") {
    for (const auto& [last, why] : {std::pair<std::string, std::string>{frame(1, 1) + "a", ""},
                                    {frame(1, 2) + "a", "the connection broke off in the middle of a message"}}) {
        Connection connection;
        connection.say(last);
        connection.other.reset();
        connection.run_until([&] { return connection.here.ended.has_value(); });
        CHECK(*connection.here.ended == why);
        CHECK_FALSE(connection.link->open());
    }
}

TEST_CASE("a message that is too long ends the link before it is read") {
    Connection connection;
    connection.say(frame(1, kMost + 1));
    connection.run_until([&] { return connection.here.ended.has_value(); });
    CHECK(connection.here.ended->find("1001 bytes") != std::string::npos);
    CHECK(connection.here.messages.empty());
}

TEST_CASE("a message that does not belong there ends the link") {
    Connection connection;
    connection.here.refused = 9;
    connection.say(frame(9, 0) + frame(1, 0));
    connection.run_until([&] { return connection.here.ended.has_value(); });
    CHECK(connection.here.messages.empty());
}

TEST_CASE("an end that never reads is given up, and does not take all memory") {
    Connection connection;
    const std::string message(NodeLink::kLargest, 'x');
    for (int i = 0; i < 12; ++i) // the system keeps some MB
        connection.link->send(1, message);
    connection.say(frame(1, 0)); // so that the loop has something to do
    connection.run_until([&] { return connection.here.ended.has_value(); });
    CHECK(*connection.here.ended == "it does not read what it is sent");
}

TEST_CASE("keys are the same if all their bytes are") {
    NodeKey a{};
    NodeKey b{};
    CHECK(same_key(a, b));
    for (std::byte& each : b) {
        each = std::byte{0x80};
        CHECK_FALSE(same_key(a, b));
        each = std::byte{0};
    }
}

TEST_SUITE_END();

} // namespace gpurun::test::node_link
