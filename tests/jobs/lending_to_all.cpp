// Loans to all other ranks at once.
#include "support/dl_tensor.h"
#include "support/job.hpp"

#include <string>
#include <vector>

namespace gpurun::test::lending_to_all {

namespace {

constexpr int kLoan = 15, kGo = 16;
constexpr size_t kBytes = 100'001;

gpurun_request lend(void* buffer, size_t bytes, gpurun_stream order, gpurun_loan_kind kind = GPURUN_LOAN_READ_ONLY) {
    gpurun_request request{};
    REQUIRE_OK(gpurun_lend(buffer, bytes, kind, GPURUN_ALL_RANKS, kLoan, kWorld, order, &request));
    return request;
}

// Null where this rank does not reach the memory: then it has received it.
uint8_t* borrow(int root, gpurun_stream order, gpurun_loan* ret_loan, Memory& copy) {
    const gpurun_status status = gpurun_borrow(root, kLoan, kWorld, order, ret_loan, nullptr);
    if (status == GPURUN_ERR_UNSUPPORTED) {
        REQUIRE_OK(gpurun_recv(copy.get(), copy.size(), GPURUN_BYTE, root, kLoan, kWorld, order, nullptr));
        return nullptr;
    }
    REQUIRE_OK(status);
    void* at = nullptr;
    REQUIRE_OK(gpurun_loan_buffer(*ret_loan, &at, nullptr, nullptr));
    return static_cast<uint8_t*>(at);
}

void meet() { REQUIRE_OK(gpurun_barrier(kWorld, GPURUN_HOST)); }

} // namespace

TEST_SUITE_BEGIN("loans");

TEST_CASE("one call lends to all ranks, and its request is complete when all have given back") {
    const Stream stream;
    for (const gpurun_stream order : {static_cast<gpurun_stream>(stream), GPURUN_HOST})
        for (int root = 0; root < size(); ++root) {
            const Bytes content = pattern(kBytes, static_cast<uint64_t>(root));
            Memory memory(Kind::kDevice, kBytes);
            if (rank() == root) {
                memory.write(content);
                delay(order, 500);
                gpurun_request request = lend(memory.get(), kBytes, order);
                REQUIRE_OK(gpurun_wait(&request, order, nullptr));
                CHECK(request.id == 0);
                REQUIRE_OK(gpurun_memset(memory.get(), 0xee, kBytes, order));
                synchronize(order);
                continue;
            }
            gpurun_loan loan{};
            const uint8_t* const lent = borrow(root, order, &loan, memory);
            delay(order, rank() * 500);
            if (lent != nullptr) {
                REQUIRE_OK(gpurun_memcpy(memory.get(), lent, kBytes, order));
                REQUIRE_OK(gpurun_give_back(&loan, order));
            }
            synchronize(order);
            CHECK(first_difference(memory.read(), content) == -1);
        }
}

TEST_CASE("what is lent to all is freed by nobody, and shared if it is lent so") {
    const Stream stream;
    Memory memory(Kind::kDevice, 1000);
    memory.write(Bytes(1000, 0));
    if (rank() == 0) {
        gpurun_request request = lend(memory.get(), 1000, stream, GPURUN_LOAN_SHARED), other{};
        if (size() == 1) { // nobody has it
            REQUIRE_OK(gpurun_wait(&request, stream, nullptr));
            return;
        }
        CHECK(gpurun_free(memory.get()) == GPURUN_ERR_LOAN);
        for (int to = 1; to < size(); ++to)
            CHECK(std::string(gpurun_error_detail()).find("rank " + std::to_string(to) + " with tag 15") !=
                  std::string::npos);
        CHECK(gpurun_lend(memory.get(), 1, GPURUN_LOAN_EXCLUSIVE, 1, kLoan, kWorld, stream, &other) == GPURUN_ERR_LOAN);
        REQUIRE_OK(gpurun_wait(&request, stream, nullptr));
        stream.synchronize();
        const Bytes written = memory.read();
        int reached[256]{};
        for (int from = 1; from < size(); ++from) {
            REQUIRE_OK(gpurun_recv(&reached[from], 1, GPURUN_INT32, from, kGo, kWorld, GPURUN_HOST, nullptr));
            CHECK(written[static_cast<size_t>(from)] == (reached[from] != 0 ? from : 0));
        }
        return;
    }
    gpurun_loan loan{};
    uint8_t* const lent = borrow(0, stream, &loan, memory);
    const int reached = lent != nullptr ? 1 : 0;
    if (lent != nullptr) {
        REQUIRE_OK(gpurun_memset(lent + rank(), rank(), 1, stream));
        REQUIRE_OK(gpurun_give_back(&loan, stream));
    }
    REQUIRE_OK(gpurun_send(&reached, 1, GPURUN_INT32, 0, kGo, kWorld, GPURUN_HOST));
    stream.synchronize();
}

TEST_CASE("a loan to all is taken back from those who have not received it") {
    Memory memory(Kind::kDevice, 1000);
    gpurun_message_status status{};
    if (rank() == 0) {
        gpurun_request request = lend(memory.get(), 1000, GPURUN_HOST);
        REQUIRE_OK(gpurun_cancel(&request));
        REQUIRE_OK(gpurun_wait(&request, GPURUN_HOST, &status));
        CHECK(status.cancelled == (size() > 1 ? 1 : 0));
    }
    meet();
    gpurun_request request{};
    if (rank() == 0)
        request = lend(memory.get(), 1000, GPURUN_HOST);
    gpurun_loan loan{};
    if (rank() == 1)
        (void)borrow(0, GPURUN_HOST, &loan, memory);
    meet();
    if (rank() == 0 && size() > 1)
        REQUIRE_OK(gpurun_cancel(&request));
    meet();
    if (rank() == 1)
        REQUIRE_OK(gpurun_give_back(&loan, GPURUN_HOST));
    if (rank() == 0) {
        REQUIRE_OK(gpurun_wait(&request, GPURUN_HOST, &status));
        CHECK(status.cancelled == 0);
    }
}

TEST_CASE("tensors are lent to all") {
    std::vector<int64_t> shape{20, 5};
    Memory memory(Kind::kDevice, 1000), copy(Kind::kDevice, 400);
    memory.write(Bytes(1000, 31));
    if (rank() == 0) {
        DLTensor tensor{};
        tensor.data = memory.at(100);
        tensor.device = {1, 0};
        tensor.ndim = 2;
        tensor.dtype = {2, 32, 1};
        tensor.shape = shape.data();
        const char* const names[] = {"table"};
        gpurun_request request{};
        REQUIRE_OK(gpurun_lend_tensors(&tensor, names, 1, "v7", 2, GPURUN_LOAN_READ_ONLY, GPURUN_ALL_RANKS, kLoan,
                                       kWorld, GPURUN_HOST, &request));
        REQUIRE_OK(gpurun_wait(&request, GPURUN_HOST, nullptr));
        return;
    }
    gpurun_loan loan{};
    if (borrow(0, GPURUN_HOST, &loan, copy) == nullptr) {
        CHECK(first_difference(copy.read(), Bytes(400, 31)) == -1);
        return;
    }
    const DLTensor* tensors = nullptr;
    const char* const* names = nullptr;
    const void* metadata = nullptr;
    size_t count = 0, bytes = 0;
    REQUIRE_OK(gpurun_loan_tensors(loan, &tensors, &names, &count));
    REQUIRE_OK(gpurun_loan_metadata(loan, &metadata, &bytes));
    REQUIRE(count == 1);
    CHECK(std::string(names[0]) == "table");
    CHECK(std::string(static_cast<const char*>(metadata), bytes) == "v7");
    CHECK(tensors[0].shape[0] == 20);
    Bytes content(400);
    REQUIRE_OK(gpurun_memcpy(content.data(), tensors[0].data, 400, GPURUN_HOST));
    CHECK(first_difference(content, Bytes(400, 31)) == -1);
    REQUIRE_OK(gpurun_give_back(&loan, GPURUN_HOST));
}

TEST_CASE("what cannot be lent to all is refused, and nobody gets any of it") {
    Memory memory(Kind::kDevice, 100), pageable(Kind::kPageable, 100);
    gpurun_request request = gpurun_make_request(7);
    CHECK(gpurun_lend(memory.get(), 100, GPURUN_LOAN_EXCLUSIVE, GPURUN_ALL_RANKS, kLoan, kWorld, GPURUN_HOST,
                      &request) == GPURUN_ERR_ARGUMENT);
    if (size() > 1)
        CHECK(gpurun_lend(pageable.get(), 100, GPURUN_LOAN_SHARED, GPURUN_ALL_RANKS, kLoan, kWorld, GPURUN_HOST,
                          &request) == GPURUN_ERR_UNSUPPORTED);
    CHECK(request.id == 7);
    meet();
    int found = 1;
    REQUIRE_OK(gpurun_iprobe(GPURUN_ANY_SOURCE, kLoan, kWorld, &found, nullptr));
    CHECK(found == 0);
    REQUIRE_OK(gpurun_memset(memory.get(), 0, 100, GPURUN_HOST));
    REQUIRE_OK(gpurun_barrier(kWorld, GPURUN_HOST));
}

TEST_SUITE_END();

} // namespace gpurun::test::lending_to_all
