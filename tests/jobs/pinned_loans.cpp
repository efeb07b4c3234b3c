// Loans of pinned host memory, which borrowers map: for their streams, and for their CPU.
#include "lending.hpp"

#include <cstring>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

namespace gpurun::test::pinned_loans {

namespace {

constexpr int kLoan = 21, kGo = 22;
constexpr size_t kBytes = 300001;

using lending::Borrowed;
using lending::lend;
using lending::make_tensor;
using lending::read;

bool lends() { return rank() % 2 == 0; }

// How many mappings of pinned memory this process has, its own ones and others'.
size_t pinned_mappings() {
    std::ifstream maps("/proc/self/maps");
    size_t found = 0;
    for (std::string line; std::getline(maps, line);)
        found += line.find("gpurun-pinned") != std::string::npos ? 1 : 0;
    return found;
}

} // namespace

TEST_SUITE_BEGIN("loans");

TEST_CASE("pinned memory is lent where it lies, to a borrower's CPU and to its streams") {
    if (partner() == GPURUN_PROC_NULL)
        return;
    const Stream stream;
    for (const gpurun_stream order : {static_cast<gpurun_stream>(stream), GPURUN_HOST})
        for (const size_t offset : {size_t{0}, size_t{77}}) {
            const size_t bytes = kBytes - offset;
            const Bytes before = pattern(bytes, 1), after = pattern(bytes, 2);
            Memory memory(Kind::kPinned, kBytes), device(Kind::kDevice, kBytes);
            if (lends()) {
                device.write(before);
                delay(order, 3000);
                REQUIRE_OK(gpurun_memcpy(memory.at(offset), device.get(), bytes, order));
                gpurun_request request = lend(memory.at(offset), bytes, GPURUN_LOAN_EXCLUSIVE, partner(), kLoan, order);
                CHECK(gpurun_memset(memory.at(offset), 0, 1, order) == GPURUN_ERR_LOAN);
                REQUIRE_OK(gpurun_wait(&request, order, nullptr));
                synchronize(order);
                CHECK(std::memcmp(memory.at(offset), after.data(), bytes) == 0);
                continue;
            }
            Borrowed got = lending::borrow(partner(), kLoan, order);
            REQUIRE(got.bytes == bytes);
            CHECK(got.kind == GPURUN_LOAN_EXCLUSIVE);
            if (order == GPURUN_HOST) {
                CHECK(std::memcmp(got.at, before.data(), bytes) == 0);
                std::memcpy(got.at, after.data(), bytes);
            } else {
                REQUIRE_OK(gpurun_memcpy(device.get(), got.at, bytes, order));
                CHECK(first_difference(read(device.get(), bytes, order), before) == -1);
                device.write(after);
                delay(order, 3000);
                REQUIRE_OK(gpurun_memcpy(got.at, device.get(), bytes, order));
            }
            REQUIRE_OK(gpurun_give_back(&got.loan, order));
            synchronize(order);
        }
}

TEST_CASE("borrowed pinned memory is sent, written into by messages, and comes back to its owner as a loan") {
    if (partner() == GPURUN_PROC_NULL)
        return;
    const Stream stream;
    for (const gpurun_stream order : {static_cast<gpurun_stream>(stream), GPURUN_HOST})
        for (const size_t bytes : {size_t{60}, kBytes}) {
            const Bytes before = pattern(bytes, 3), after = pattern(bytes, 4);
            Memory memory(Kind::kPinned, bytes), other(Kind::kDevice, bytes);
            if (lends()) {
                memory.write(before);
                gpurun_request request = lend(memory.get(), bytes, GPURUN_LOAN_SHARED, partner(), kLoan, order);
                REQUIRE_OK(gpurun_recv(other.get(), bytes, GPURUN_BYTE, partner(), kGo, kWorld, order, nullptr));
                CHECK(first_difference(read(other.get(), bytes, order), before) == -1);
                other.write(after);
                REQUIRE_OK(gpurun_send(other.get(), bytes, GPURUN_BYTE, partner(), kGo, kWorld, order));
                Borrowed own = lending::borrow(partner(), kLoan, order);
                CHECK(own.at == memory.get());
                synchronize(order);
                CHECK(std::memcmp(own.at, after.data(), bytes) == 0);
                REQUIRE_OK(gpurun_give_back(&own.loan, order));
                REQUIRE_OK(gpurun_wait(&request, order, nullptr));
                synchronize(order);
                continue;
            }
            Borrowed got = lending::borrow(partner(), kLoan, order);
            REQUIRE_OK(gpurun_send(got.at, bytes, GPURUN_BYTE, partner(), kGo, kWorld, order));
            REQUIRE_OK(gpurun_recv(got.at, bytes, GPURUN_BYTE, partner(), kGo, kWorld, order, nullptr));
            gpurun_request on = lend(got.at, bytes, GPURUN_LOAN_READ_ONLY, partner(), kLoan, order);
            REQUIRE_OK(gpurun_wait(&on, order, nullptr));
            REQUIRE_OK(gpurun_give_back(&got.loan, order));
            synchronize(order);
        }
}

TEST_CASE("pinned memory that is lent on in a stream is received after what the stream has written") {
    if (size() < 3 || rank() > 2)
        return;
    const Bytes before(kBytes, 1), after(kBytes, 2);
    Memory memory(Kind::kPinned, kBytes);
    if (rank() == 0) {
        memory.write(before);
        gpurun_request request = lend(memory.get(), kBytes, GPURUN_LOAN_SHARED, 1, kLoan, GPURUN_HOST);
        REQUIRE_OK(gpurun_wait(&request, GPURUN_HOST, nullptr));
    } else if (rank() == 1) {
        const Stream stream;
        Memory source(Kind::kDevice, kBytes);
        source.write(after);
        Borrowed got = lending::borrow(0, kLoan, GPURUN_HOST);
        delay(stream, 50'000);
        REQUIRE_OK(gpurun_memcpy(got.at, source.get(), kBytes, stream));
        gpurun_request on = lend(got.at, kBytes, GPURUN_LOAN_READ_ONLY, 2, kLoan, stream);
        REQUIRE_OK(gpurun_wait(&on, GPURUN_HOST, nullptr));
        REQUIRE_OK(gpurun_give_back(&got.loan, GPURUN_HOST));
    } else {
        Memory copy(Kind::kPageable, kBytes);
        REQUIRE_OK(gpurun_recv(copy.get(), kBytes, GPURUN_BYTE, 1, kLoan, kWorld, GPURUN_HOST, nullptr));
        CHECK(first_difference(copy.read(), after) == -1);
    }
}

TEST_CASE("a receive that meets a loan of pinned memory gets a copy") {
    if (partner() == GPURUN_PROC_NULL)
        return;
    const Stream stream;
    for (const gpurun_stream order : {static_cast<gpurun_stream>(stream), GPURUN_HOST})
        for (const Kind kind : kKinds) {
            const Bytes content = pattern(kBytes, 5);
            if (lends()) {
                Memory memory(Kind::kPinned, kBytes);
                memory.write(content);
                gpurun_request request = lend(memory.get(), kBytes, GPURUN_LOAN_SHARED, partner(), kLoan, order);
                REQUIRE_OK(gpurun_wait(&request, order, nullptr));
                synchronize(order);
            } else {
                const Memory copy(kind, kBytes);
                REQUIRE_OK(gpurun_recv(copy.get(), kBytes, GPURUN_BYTE, partner(), kLoan, kWorld, order, nullptr));
                synchronize(order);
                CHECK(first_difference(copy.read(), content) == -1);
            }
        }
}

TEST_CASE("pinned memory that is lent is not freed, and none of it stays mapped once it is unregistered") {
    if (partner() == GPURUN_PROC_NULL)
        return;
    constexpr int kRounds = 20;
    const size_t mapped = pinned_mappings();
    for (int round = 0; round < kRounds; ++round) {
        const auto value = static_cast<uint8_t>(round + 1);
        if (lends()) {
            void* memory = nullptr;
            REQUIRE_OK(gpurun_malloc_host(&memory, kBytes)); // often at the address of the one before
            std::memset(memory, value, kBytes);
            gpurun_request request = lend(memory, kBytes, GPURUN_LOAN_READ_ONLY, partner(), kLoan, GPURUN_HOST);
            CHECK(gpurun_free(memory) == GPURUN_ERR_LOAN);
            lending::tell(partner(), kGo);
            REQUIRE_OK(gpurun_wait(&request, GPURUN_HOST, nullptr));
            if (round % 2 == 0)
                REQUIRE_OK(gpurun_unregister(memory, -1));
            REQUIRE_OK(gpurun_free(memory));
        } else {
            lending::await(partner(), kGo);
            Borrowed got = lending::borrow(partner(), kLoan, GPURUN_HOST);
            CHECK(first_difference(Bytes(got.at, got.at + got.bytes), Bytes(kBytes, value)) == -1);
            CHECK(gpurun_memset(got.at, 0, 1, GPURUN_HOST) == GPURUN_ERR_BUFFER);
            REQUIRE_OK(gpurun_give_back(&got.loan, GPURUN_HOST));
        }
    }
    lending::tell(partner(), kGo);
    lending::await(partner(), kGo);
    for (int calls = 0; calls < 100'000 && pinned_mappings() > mapped; ++calls) { // which unmap what was freed
        int found = 0;
        REQUIRE_OK(gpurun_iprobe(partner(), kLoan, kWorld, &found, nullptr));
    }
    CHECK(pinned_mappings() <= mapped);
}

TEST_CASE("tensors of pinned and of device memory are lent together, each where it lies") {
    if (partner() == GPURUN_PROC_NULL)
        return;
    std::vector<int64_t> shape{10, 20};
    if (lends()) {
        Memory device(Kind::kDevice, 1000), pinned(Kind::kPinned, 1000);
        device.write(Bytes(1000, 44));
        pinned.write(Bytes(1000, 55));
        const std::vector<DLTensor> tensors{make_tensor(pinned.at(300), shape), make_tensor(device.at(200), shape),
                                            make_tensor(pinned.at(700), shape)};
        gpurun_request request{};
        REQUIRE_OK(gpurun_lend_tensors(tensors.data(), nullptr, tensors.size(), nullptr, 0, GPURUN_LOAN_SHARED,
                                       partner(), kLoan, kWorld, GPURUN_HOST, &request));
        REQUIRE_OK(gpurun_wait(&request, GPURUN_HOST, nullptr));
        if (pinned.get()[700] != 55) // unless its borrower does not reach the device memory
            CHECK(first_difference(Bytes(pinned.at(700), pinned.at(900)), Bytes(200, 56)) == -1);
        return;
    }
    gpurun_loan loan{};
    const gpurun_status status = gpurun_borrow(partner(), kLoan, kWorld, GPURUN_HOST, &loan, nullptr);
    if (status == GPURUN_ERR_UNSUPPORTED)
        return; // it has been given back
    REQUIRE_OK(status);
    const DLTensor* tensors = nullptr;
    size_t count = 0;
    REQUIRE_OK(gpurun_loan_tensors(loan, &tensors, nullptr, &count));
    REQUIRE(count == 3);
    CHECK(first_difference(read(static_cast<uint8_t*>(tensors[1].data), 200, GPURUN_HOST), Bytes(200, 44)) == -1);
    auto* const first = static_cast<uint8_t*>(tensors[0].data);
    auto* const last = static_cast<uint8_t*>(tensors[2].data);
    CHECK(last - first == 400);
    CHECK(first_difference(Bytes(first, first + 200), Bytes(200, 55)) == -1);
    std::memset(last, 56, 200);
    REQUIRE_OK(gpurun_give_back(&loan, GPURUN_HOST));
}

TEST_SUITE_END();

} // namespace gpurun::test::pinned_loans
