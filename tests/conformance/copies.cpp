// Copying and filling.
#include "subject.hpp"

#include <algorithm>
#include <cstring>

namespace gpurun::conformance::copies {

TEST_SUITE_BEGIN("copies");

TEST_CASE("bytes go from host to device to device to host, whatever their number and alignment") {
    const Stream stream;
    for (const size_t bytes : {size_t{1}, size_t{7}, size_t{4096}, size_t{65'537}, (size_t{4} << 20) + 3}) {
        CAPTURE(bytes);
        const Memory first(bytes + 1);
        const Memory second(bytes + 3);
        const Pinned from(bytes);
        const Pinned to(bytes);
        const Bytes content = pattern(bytes, 7);
        std::memcpy(from.get(), content.data(), bytes);
        REQUIRE_OK(subject().copy(first.get() + 1, from.get(), bytes, stream));
        REQUIRE_OK(subject().copy(second.get() + 3, first.get() + 1, bytes, stream));
        REQUIRE_OK(subject().copy(to.get(), second.get() + 3, bytes, stream));
        stream.synchronize();
        CHECK(std::memcmp(to.get(), content.data(), bytes) == 0);
    }
}

TEST_CASE("filling sets the bytes asked for and none beside them") {
    const Stream stream;
    const Memory memory(10'000);
    REQUIRE_OK(subject().fill(memory.get(), 0, 10'000, stream));
    REQUIRE_OK(subject().fill(memory.get() + 1001, 0xab, 5003, stream));
    stream.synchronize();
    const Bytes content = read(memory.get(), 10'000);
    CHECK(std::count(content.begin(), content.end(), std::byte{0xab}) == 5003);
    CHECK(content[1000] == std::byte{0});
    CHECK(content[1001] == std::byte{0xab});
    CHECK(content[6003] == std::byte{0xab});
    CHECK(content[6004] == std::byte{0});
}

TEST_CASE("copies and fills of one stream happen in order") {
    const Stream stream;
    const Memory memory(8192);
    const Pinned pinned(8192);
    for (int round = 0; round < 20; ++round) {
        REQUIRE_OK(subject().fill(memory.get(), round, 8192, stream));
        REQUIRE_OK(subject().copy(pinned.get(), memory.get(), 8192, stream));
        REQUIRE_OK(subject().fill(memory.get(), 0xff, 8192, stream));
        stream.synchronize();
        CHECK(std::count(pinned.get(), pinned.get() + 8192, static_cast<std::byte>(round)) == 8192);
    }
}

TEST_CASE("a copy reads its source when the stream gets there, not when it is called") {
    const Stream stream;
    const Memory memory(100);
    const Pinned pinned(100);
    const size_t gate = new_counter();
    std::memset(pinned.get(), 1, 100);
    hold(stream, gate);
    REQUIRE_OK(subject().copy(memory.get(), pinned.get(), 100, stream));
    std::memset(pinned.get(), 2, 100);
    store(gate, 1);
    stream.synchronize();
    CHECK(read(memory.get(), 100) == Bytes(100, std::byte{2}));
}

TEST_CASE("nothing to copy or to fill is no error") {
    const Stream stream;
    const Memory memory(100);
    const Pinned pinned(100);
    REQUIRE_OK(subject().copy(memory.get(), pinned.get(), 0, stream));
    REQUIRE_OK(subject().fill(memory.get(), 1, 0, stream));
    stream.synchronize();
}

} // namespace gpurun::conformance::copies
