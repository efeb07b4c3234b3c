// Sizes of the basic types, and counts that do not fit.
#include "comm/datatype.hpp"
#include "support/unit.hpp"

using namespace gpurun;
using gpurun::test::must;
using gpurun::test::status_of;

TEST_SUITE_BEGIN("datatype");

TEST_CASE("a count of elements has its bytes") {
    CHECK(must(comm::message_bytes(3, 13)) == 12); // float
    CHECK(must(comm::message_bytes(3, 16)) == 48); // complex double
    CHECK(must(comm::message_bytes(0, 1)) == 0);
}

TEST_CASE("what is no type is refused") {
    for (const int type : {-1, 0, 23, 1 << 20})
        CHECK(status_of(comm::type_size(type)) == static_cast<int>(base::Status::kType));
}

TEST_CASE("a product that no address space holds is refused") {
    CHECK(status_of(comm::message_bytes(SIZE_MAX, 1)) == static_cast<int>(base::Status::kCount));
    CHECK(status_of(comm::message_bytes(SIZE_MAX / 8 + 1, 14)) == static_cast<int>(base::Status::kCount));
}

TEST_SUITE_END();
