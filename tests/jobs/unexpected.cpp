// Messages that nobody has asked for: more of them, and larger ones, than there is room for.
#include "support/job.hpp"

namespace gpurun::test::unexpected {

namespace {

// Around the bounds of what is kept for a receiver, and what stays with its sender. All of them together are more than
// every buffer of a pair of ranks holds.
constexpr size_t kSizes[] = {0, 1, 100, 4095, 4096, 4097, 8192, 8193, 16384, 16385, 32768, 32769, 200000};
constexpr int kMessages = 1500, kLast = kMessages;

size_t bytes_of(int tag) { return kSizes[static_cast<size_t>(tag) % std::size(kSizes)]; }

// A window on one pattern: the contents of messages differ by where they begin in it.
constexpr size_t kWindow = 200000 + kMessages;
size_t offset_of(int tag) { return static_cast<size_t>(tag); }

void start_all(const Memory& window, gpurun_stream domain, std::vector<gpurun_request>& requests) {
    for (int tag = 0; tag <= kLast; tag++) {
        requests.emplace_back();
        REQUIRE_OK(gpurun_isend(window.at(offset_of(tag)), bytes_of(tag), GPURUN_BYTE, partner(), tag, kWorld, domain,
                                &requests.back()));
    }
}

void receive_backwards(const Bytes& window, gpurun_stream domain, Kind kind) {
    const Memory buffer(kind, 200000);
    Bytes got(200000);
    gpurun_message_status status{};
    REQUIRE_OK(gpurun_probe(partner(), kLast, kWorld, &status)); // behind all others: they are here
    CHECK(status.bytes == bytes_of(kLast));
    for (int tag = kLast; tag >= 0; tag--) {
        int found = 0;
        REQUIRE_OK(gpurun_iprobe(partner(), tag, kWorld, &found, &status));
        REQUIRE(found == 1);
        REQUIRE(status.bytes == bytes_of(tag));
        REQUIRE_OK(gpurun_recv(buffer.get(), buffer.size(), GPURUN_BYTE, tag % 2 == 0 ? GPURUN_ANY_SOURCE : partner(),
                               tag, kWorld, domain, &status));
        REQUIRE_OK(gpurun_memcpy(got.data(), buffer.get(), status.bytes, domain));
        synchronize(domain);
        REQUIRE(status.bytes == bytes_of(tag));
        REQUIRE(first_difference(got.data(), &window[offset_of(tag)], status.bytes) == -1);
    }
}

} // namespace

TEST_SUITE_BEGIN("unexpected");

TEST_CASE("messages beyond every buffer's size and number wait, and are found and received last to first") {
    if (partner() == GPURUN_PROC_NULL)
        return;
    const Stream stream;
    const Bytes content = pattern(kWindow, 3);
    constexpr std::pair<Kind, Kind> kKinds[] = {
        {Kind::kPageable, Kind::kPageable}, {Kind::kDevice, Kind::kDevice}, {Kind::kPinned, Kind::kPageable}};
    for (const std::pair<Kind, Kind>& kinds : kKinds)
        for (const gpurun_stream domain : {GPURUN_HOST, static_cast<gpurun_stream>(stream)}) {
            CAPTURE(name(kinds.first));
            CAPTURE((domain == GPURUN_HOST));
            Memory window(kinds.first, kWindow);
            window.write(content);
            std::vector<gpurun_request> requests;
            start_all(window, domain, requests); // both ranks, and neither has a receive
            receive_backwards(content, domain, kinds.second);
            REQUIRE_OK(gpurun_waitall(requests.size(), requests.data(), domain, nullptr));
            synchronize(domain);
        }
}

TEST_CASE("blocking sends that fill a receiver wait for it, and lose nothing") {
    constexpr int kEach = 3000; // of 4096 bytes: more than a pair's room
    Bytes got(4096);
    if (rank() != 0) {
        for (int i = 0; i < kEach; i++) {
            const Bytes content = pattern(static_cast<size_t>(i) % 4097, static_cast<uint64_t>(rank() * kEach + i));
            REQUIRE_OK(gpurun_send(content.data(), content.size(), GPURUN_BYTE, 0, 1, kWorld, GPURUN_HOST));
        }
        REQUIRE_OK(gpurun_send(nullptr, 0, GPURUN_BYTE, 0, 2, kWorld, GPURUN_HOST));
        return;
    }
    std::vector<int> next(static_cast<size_t>(size()), 0);
    for (int i = 0; i < kEach * (size() - 1); i++) {
        gpurun_message_status status{};
        REQUIRE_OK(
            gpurun_recv(got.data(), got.size(), GPURUN_BYTE, GPURUN_ANY_SOURCE, 1, kWorld, GPURUN_HOST, &status));
        const int number = next.at(static_cast<size_t>(status.source))++;
        const Bytes content =
            pattern(static_cast<size_t>(number) % 4097, static_cast<uint64_t>(status.source * kEach + number));
        REQUIRE(status.bytes == content.size());
        REQUIRE(first_difference(got.data(), content.data(), content.size()) == -1);
    }
    for (int other = 1; other < size(); other++)
        REQUIRE_OK(gpurun_recv(nullptr, 0, GPURUN_BYTE, other, 2, kWorld, GPURUN_HOST, nullptr));
}

TEST_SUITE_END();

} // namespace gpurun::test::unexpected
