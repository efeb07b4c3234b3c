// Loans of memory that others may not be able to map: then they read a copy.
#include "lending.hpp"

#include <string>
#include <vector>

namespace gpurun::test::loans_or_copies {

namespace {

constexpr int kLoan = 17, kGo = 18;
constexpr size_t kBytes = 150'001;

bool lends() { return rank() % 2 == 0; }

using lending::Borrowed;
using lending::make_tensor;
using lending::read;

Borrowed borrow(gpurun_stream order) {
    gpurun_message_status status{};
    const Borrowed got = lending::borrow(partner(), kLoan, order, &status);
    CHECK(status.bytes == got.bytes);
    return got;
}

gpurun_status lend_tensors(const std::vector<DLTensor>& tensors, gpurun_request* ret_request) {
    return gpurun_lend_tensors(tensors.data(), nullptr, tensors.size(), "meta", 4, GPURUN_LOAN_READ_OR_COPY, partner(),
                               kLoan, kWorld, GPURUN_HOST, ret_request);
}

} // namespace

TEST_SUITE_BEGIN("loans");

TEST_CASE("memory of any kind is lent if copies are allowed, and a borrower is told that it has one") {
    if (partner() == GPURUN_PROC_NULL)
        return;
    const Stream stream;
    for (const gpurun_stream order : {static_cast<gpurun_stream>(stream), GPURUN_HOST})
        for (const Kind kind : kKinds)
            for (const size_t bytes : {size_t{3}, kBytes}) {
                INFO(name(kind), ", ", bytes, " bytes");
                const Bytes content = pattern(bytes, bytes);
                if (lends()) {
                    Memory memory(kind, bytes);
                    memory.write(content);
                    delay(order, 500);
                    gpurun_request request{};
                    REQUIRE_OK(gpurun_lend(memory.get(), bytes, GPURUN_LOAN_READ_OR_COPY, partner(), kLoan, kWorld,
                                           order, &request));
                    REQUIRE_OK(gpurun_wait(&request, order, nullptr));
                    REQUIRE_OK(gpurun_memset(memory.get(), 0xee, bytes, order));
                    synchronize(order);
                    continue;
                }
                Borrowed got = borrow(order);
                CHECK(got.bytes == bytes);
                if (kind == Kind::kPageable)
                    CHECK(got.kind == GPURUN_LOAN_COPY);
                else if (kind == Kind::kPinned)
                    CHECK(got.kind == GPURUN_LOAN_READ_ONLY);
                else
                    CHECK((got.kind == GPURUN_LOAN_COPY || got.kind == GPURUN_LOAN_READ_ONLY));
                CHECK(gpurun_memset(const_cast<uint8_t*>(got.at), 0, 1, order) == GPURUN_ERR_BUFFER);
                delay(order, 500);
                CHECK(first_difference(read(got.at, bytes, order), content) == -1);
                REQUIRE_OK(gpurun_give_back(&got.loan, order));
                CHECK(got.loan.id == 0);
            }
}

TEST_CASE("memory of a stream that is lent is not freed, and is once it has come back") {
    if (partner() == GPURUN_PROC_NULL)
        return;
    const Stream stream;
    if (lends()) {
        void* memory = nullptr;
        const gpurun_status allocated = gpurun_malloc_async(&memory, kBytes, stream);
        if (allocated == GPURUN_ERR_UNSUPPORTED)
            REQUIRE_OK(gpurun_malloc(&memory, kBytes));
        REQUIRE_OK(gpurun_memset(memory, 42, kBytes, stream));
        gpurun_request request = lending::lend(static_cast<uint8_t*>(memory) + 100, kBytes - 100,
                                               GPURUN_LOAN_READ_OR_COPY, partner(), kLoan, stream);
        const auto free = [&] {
            return allocated == GPURUN_OK ? gpurun_free_async(memory, stream) : gpurun_free(memory);
        };
        CHECK(free() == GPURUN_ERR_LOAN);
        CHECK(std::string(gpurun_error_detail()).find("with tag 17") != std::string::npos);
        lending::tell(partner(), kGo);
        REQUIRE_OK(gpurun_wait(&request, stream, nullptr));
        REQUIRE_OK(free());
        stream.synchronize();
    } else {
        lending::await(partner(), kGo);
        Borrowed got = borrow(stream);
        CHECK(first_difference(read(got.at, got.bytes, stream), Bytes(kBytes - 100, 42)) == -1);
        REQUIRE_OK(gpurun_give_back(&got.loan, stream));
    }
}

TEST_CASE("a loan that was copied has come back, and its copy is not lent on") {
    if (partner() == GPURUN_PROC_NULL)
        return;
    if (lends()) {
        Memory memory(Kind::kPageable, 1000);
        memory.write(Bytes(1000, 5));
        gpurun_request request{};
        REQUIRE_OK(
            gpurun_lend(memory.get(), 1000, GPURUN_LOAN_READ_OR_COPY, partner(), kLoan, kWorld, GPURUN_HOST, &request));
        REQUIRE_OK(gpurun_wait(&request, GPURUN_HOST, nullptr)); // the borrower gives back later
        REQUIRE_OK(gpurun_memset(memory.get(), 6, 1000, GPURUN_HOST));
        REQUIRE_OK(gpurun_send(nullptr, 0, GPURUN_BYTE, partner(), kGo, kWorld, GPURUN_HOST));
    } else {
        Borrowed got = borrow(GPURUN_HOST);
        REQUIRE_OK(gpurun_recv(nullptr, 0, GPURUN_BYTE, partner(), kGo, kWorld, GPURUN_HOST, nullptr));
        CHECK(first_difference(read(got.at, 1000, GPURUN_HOST), Bytes(1000, 5)) == -1);
        gpurun_request request{};
        CHECK(gpurun_lend(const_cast<uint8_t*>(got.at), 1000, GPURUN_LOAN_READ_ONLY, partner(), kLoan, kWorld,
                          GPURUN_HOST, &request) == GPURUN_ERR_UNSUPPORTED);
        CHECK(std::string(gpurun_error_detail()).find("is the copy of a loan") != std::string::npos);
        REQUIRE_OK(gpurun_give_back(&got.loan, GPURUN_HOST));
    }
}

TEST_CASE("a single tensor without gaps is lent or copied, and several are lent or refused") {
    if (partner() == GPURUN_PROC_NULL)
        return;
    std::vector<int64_t> shape{10, 20};
    for (const Kind kind : {Kind::kDevice, Kind::kPageable}) {
        Memory memory(kind, 1000);
        if (lends()) {
            memory.write(Bytes(1000, 44));
            gpurun_request request{};
            REQUIRE_OK(lend_tensors({make_tensor(memory.at(300), shape)}, &request));
            REQUIRE_OK(gpurun_wait(&request, GPURUN_HOST, nullptr));
            if (kind == Kind::kPageable)
                CHECK(lend_tensors({make_tensor(memory.at(300), shape), make_tensor(memory.at(600), shape)},
                                   &request) == GPURUN_ERR_UNSUPPORTED);
            continue;
        }
        Borrowed got = borrow(GPURUN_HOST);
        if (kind == Kind::kPageable)
            CHECK(got.kind == GPURUN_LOAN_COPY);
        const DLTensor* tensors = nullptr;
        const void* metadata = nullptr;
        size_t count = 0, bytes = 0;
        REQUIRE_OK(gpurun_loan_tensors(got.loan, &tensors, nullptr, &count));
        REQUIRE_OK(gpurun_loan_metadata(got.loan, &metadata, &bytes));
        REQUIRE(count == 1);
        CHECK(std::string(static_cast<const char*>(metadata), bytes) == "meta");
        CHECK(tensors[0].data == got.at);
        CHECK(tensors[0].shape[1] == 20);
        CHECK(first_difference(read(got.at, 200, GPURUN_HOST), Bytes(200, 44)) == -1);
        REQUIRE_OK(gpurun_give_back(&got.loan, GPURUN_HOST));
    }
}

TEST_SUITE_END();

} // namespace gpurun::test::loans_or_copies
