// Texts that travel as descriptors.
#include "platform/sealed_text.hpp"
#include "platform/byte_stream.hpp"
#include "platform/shared_memory.hpp"
#include "support/unit.hpp"

#include <string>
#include <unistd.h>

using namespace gpurun::platform;
using gpurun::test::must;

TEST_SUITE_BEGIN("sealed text");

TEST_CASE("a text is read as it was sealed, and cannot be changed") {
    for (const size_t size : {size_t{0}, size_t{1}, size_t{100'000}}) {
        const std::string text(size, 'x');
        const UniqueFd fd = must(seal_text(text));
        CHECK(must(read_sealed_text(fd.get(), 100'000)) == text);
        CHECK(::write(fd.get(), "y", 1) < 0);
    }
}

TEST_CASE("what is longer than allowed is refused") {
    const UniqueFd fd = must(seal_text("four"));
    CHECK(must(read_sealed_text(fd.get(), 4)) == "four");
    CHECK_FALSE(read_sealed_text(fd.get(), 3));
}

TEST_CASE("what could keep a reader waiting, or change, is no text") {
    const Pipe pipe = must(create_pipe());
    CHECK_FALSE(read_sealed_text(pipe.read_end.get(), 10));
    const UniqueFd segment = must(create_segment("test", page_size())); // it can be written
    CHECK_FALSE(read_sealed_text(segment.get(), page_size()));
}

TEST_SUITE_END();
