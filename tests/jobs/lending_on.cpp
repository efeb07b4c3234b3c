// Loans that are lent on: rank 0 lends to rank 1, that to rank 2, and so on.
#include "lending.hpp"
#include "support/dl_tensor.h"

#include <string>
#include <vector>

namespace gpurun::test::lending_on {

namespace {

constexpr int kLoan = 13, kGo = 14;
constexpr size_t kBytes = 200'003;

using lending::Borrowed;

void tell(int to) { lending::tell(to, kGo); }
void await(int from) { lending::await(from, kGo); }
gpurun_request lend(void* buffer, size_t bytes, int to, gpurun_stream order,
                    gpurun_loan_kind kind = GPURUN_LOAN_EXCLUSIVE) {
    return lending::lend(buffer, bytes, kind, to, kLoan, order);
}
Borrowed borrow(int from, gpurun_stream order) { return lending::borrow(from, kLoan, order); }

// Whether there are three ranks, and all reach each other's memory: each lends to the next but one, and the last but
// one. All ranks call this.
bool can_test() {
    static int answer = -1;
    if (answer != -1)
        return answer == 1;
    int mine = size() >= 3 ? 1 : 0, all = 0;
    const Memory memory(Kind::kDevice, 64);
    if (mine == 1)
        for (const int step : {1, size() - 1}) {
            const int to = (rank() + step) % size(), from = (rank() + size() - step) % size();
            gpurun_request request = lend(memory.get(), 64, to, GPURUN_HOST);
            if (!lending::can_borrow(from, kLoan))
                mine = 0;
            REQUIRE_OK(gpurun_wait(&request, GPURUN_HOST, nullptr));
        }
    REQUIRE_OK(gpurun_allreduce(&mine, &all, 1, GPURUN_INT32, GPURUN_MIN, kWorld, GPURUN_HOST));
    answer = all;
    return answer == 1;
}

bool takes_part() { return can_test() && rank() < 3; }

bool refused(gpurun_status status, gpurun_status expected, const char* saying) {
    const std::string detail = gpurun_error_detail();
    const bool as_expected = status == expected && detail.find(saying) != std::string::npos;
    INFO("status ", gpurun_status_string(status), ": ", detail);
    CHECK(as_expected);
    return as_expected;
}

} // namespace

TEST_SUITE_BEGIN("loans");

TEST_CASE("what is borrowed is lent on, and the first lender goes on after the last borrower") {
    if (!takes_part())
        return;
    const Stream stream;
    for (const gpurun_stream order : {static_cast<gpurun_stream>(stream), GPURUN_HOST})
        for (int round = 0; round < 4; ++round) {
            const Bytes first = pattern(kBytes, 1), last = pattern(kBytes, 3);
            if (rank() == 0) {
                Memory memory(Kind::kDevice, kBytes + 100), source(Kind::kPinned, kBytes);
                source.write(first);
                delay(order, 1000);
                REQUIRE_OK(gpurun_memcpy(memory.at(77), source.get(), kBytes, order));
                gpurun_request request = lend(memory.at(77), kBytes, 1, order);
                REQUIRE_OK(gpurun_wait(&request, order, nullptr));
                Bytes content(kBytes);
                REQUIRE_OK(gpurun_memcpy(content.data(), memory.at(77), kBytes, order));
                synchronize(order);
                content[0] = last[0]; // the middle's
                CHECK(first_difference(content, last) == -1);
            } else if (rank() == 1) {
                Borrowed got = borrow(0, order);
                delay(order, 500);
                REQUIRE_OK(gpurun_memset(got.at, 0x55, 1, order));
                gpurun_request request = lend(got.at, got.bytes, 2, order);
                REQUIRE_OK(gpurun_wait(&request, order, nullptr));
                uint8_t byte = 0;
                REQUIRE_OK(gpurun_memcpy(&byte, got.at + 1, 1, order));
                REQUIRE_OK(gpurun_memset(got.at, 0x66, 1, order));
                REQUIRE_OK(gpurun_give_back(&got.loan, order));
                synchronize(order);
                CHECK(byte == last[1]);
            } else {
                Memory source(Kind::kPinned, kBytes), copy(Kind::kDevice, kBytes);
                source.write(last);
                Borrowed got = borrow(1, order);
                REQUIRE(got.bytes == kBytes);
                CHECK(got.kind == GPURUN_LOAN_EXCLUSIVE);
                REQUIRE_OK(gpurun_memcpy(copy.get(), got.at, kBytes, order));
                delay(order, 2000);
                REQUIRE_OK(gpurun_memcpy(got.at, source.get(), kBytes, order));
                REQUIRE_OK(gpurun_give_back(&got.loan, order));
                synchronize(order);
                Bytes seen = copy.read();
                CHECK(seen[0] == 0x55);
                seen[0] = first[0];
                CHECK(first_difference(seen, first) == -1);
            }
        }
}

TEST_CASE("what is lent on comes back first, and is not its lender's until then") {
    if (!takes_part())
        return;
    const Stream stream;
    if (rank() == 0) {
        Memory memory(Kind::kDevice, 1000);
        gpurun_request request = lend(memory.get(), 1000, 1, stream);
        REQUIRE_OK(gpurun_wait(&request, stream, nullptr));
        stream.synchronize();
    } else if (rank() == 1) {
        Borrowed got = borrow(0, stream);
        gpurun_request request = lend(got.at + 100, 300, 2, stream), other{};
        refused(gpurun_give_back(&got.loan, stream), GPURUN_ERR_LOAN, "lent to rank 2 with tag 13");
        CHECK(got.loan.id != 0);
        refused(gpurun_memset(got.at + 399, 0, 1, stream), GPURUN_ERR_LOAN, "lent to rank 2");
        refused(gpurun_lend(got.at, 200, GPURUN_LOAN_SHARED, 2, kLoan, kWorld, stream, &other), GPURUN_ERR_LOAN,
                "lent to rank 2");
        REQUIRE_OK(gpurun_memset(got.at, 0, 100, stream)); // beside it
        tell(2);
        REQUIRE_OK(gpurun_wait(&request, stream, nullptr));
        REQUIRE_OK(gpurun_memset(got.at + 399, 0, 1, stream));
        REQUIRE_OK(gpurun_give_back(&got.loan, stream));
    } else {
        Borrowed got = borrow(1, stream);
        await(1);
        CHECK(gpurun_memset(got.at, 0, 301, stream) == GPURUN_ERR_BUFFER);
        REQUIRE_OK(gpurun_memset(got.at, 0, 300, stream));
        REQUIRE_OK(gpurun_give_back(&got.loan, stream));
    }
}

TEST_CASE("no more is lent on than the loan allows") {
    if (!takes_part())
        return;
    for (const gpurun_loan_kind kind : {GPURUN_LOAN_READ_ONLY, GPURUN_LOAN_SHARED}) {
        Memory memory(Kind::kDevice, 1000);
        gpurun_request request{};
        if (rank() == 0) {
            request = lend(memory.get(), 1000, 1, GPURUN_HOST, kind);
            REQUIRE_OK(gpurun_wait(&request, GPURUN_HOST, nullptr));
        } else if (rank() == 1) {
            Borrowed got = borrow(0, GPURUN_HOST);
            const char* const saying = kind == GPURUN_LOAN_READ_ONLY ? "lend it on read-only" : "lend it on shared";
            for (int other = kind + 1; other <= GPURUN_LOAN_SHARED; ++other)
                refused(gpurun_lend(got.at, 1000, static_cast<gpurun_loan_kind>(other), 2, kLoan, kWorld, GPURUN_HOST,
                                    &request),
                        GPURUN_ERR_LOAN, saying);
            refused(gpurun_lend(got.at, 1000, GPURUN_LOAN_EXCLUSIVE, 2, kLoan, kWorld, GPURUN_HOST, &request),
                    GPURUN_ERR_LOAN, saying);
            request = lend(got.at, 1000, 2, GPURUN_HOST, kind);
            REQUIRE_OK(gpurun_wait(&request, GPURUN_HOST, nullptr));
            REQUIRE_OK(gpurun_give_back(&got.loan, GPURUN_HOST));
        } else {
            Borrowed got = borrow(1, GPURUN_HOST);
            CHECK(got.kind == kind);
            CHECK(gpurun_memset(got.at, 1, 1000, GPURUN_HOST) ==
                  (kind == GPURUN_LOAN_READ_ONLY ? GPURUN_ERR_BUFFER : GPURUN_OK));
            REQUIRE_OK(gpurun_give_back(&got.loan, GPURUN_HOST));
        }
    }
}

TEST_CASE("a receive that meets what is lent on gets a copy") {
    if (!takes_part())
        return;
    const Stream stream;
    const Bytes content = pattern(kBytes, 7);
    if (rank() == 0) {
        Memory memory(Kind::kDevice, kBytes);
        memory.write(content);
        gpurun_request request = lend(memory.get(), kBytes, 1, stream);
        REQUIRE_OK(gpurun_wait(&request, stream, nullptr));
        stream.synchronize();
    } else if (rank() == 1) {
        Borrowed got = borrow(0, stream);
        gpurun_request request = lend(got.at, kBytes, 2, stream);
        REQUIRE_OK(gpurun_wait(&request, stream, nullptr));
        REQUIRE_OK(gpurun_give_back(&got.loan, stream));
        stream.synchronize();
    } else {
        Memory memory(Kind::kDevice, kBytes);
        REQUIRE_OK(gpurun_recv(memory.get(), kBytes, GPURUN_BYTE, 1, kLoan, kWorld, stream, nullptr));
        stream.synchronize();
        CHECK(first_difference(memory.read(), content) == -1);
    }
}

TEST_CASE("a loan goes round, through the rank whose memory it is, and back") {
    if (!takes_part())
        return;
    const Stream stream;
    constexpr int kTurns = 3;
    const int to = (rank() + 1) % 3, from = (rank() + 2) % 3;
    Memory memory(Kind::kDevice, 1000);
    std::vector<gpurun_request> requests;
    std::vector<Borrowed> loans;
    if (rank() == 0) {
        memory.write(Bytes(1000, 0));
        requests.push_back(lend(memory.get(), 1000, to, stream));
        refused(gpurun_memset(memory.get(), 0, 1, stream), GPURUN_ERR_LOAN, "lent to rank 1");
    }
    for (int turn = 0; turn < kTurns; ++turn) {
        loans.push_back(borrow(from, stream));
        uint8_t* const at = loans.back().at;
        if (rank() == 0)
            CHECK(at == memory.get());
        REQUIRE_OK(gpurun_memset(at + 3 * turn + rank(), 1 + rank(), 1, stream));
        if (turn + 1 < kTurns || rank() != 0) {
            requests.push_back(lend(at, 1000, to, stream));
            refused(gpurun_memset(at, 0, 1, stream), GPURUN_ERR_LOAN, "lent to rank");
        }
    }
    while (!loans.empty()) {
        if (rank() != 0 || loans.size() < kTurns) {
            REQUIRE_OK(gpurun_wait(&requests.back(), stream, nullptr));
            requests.pop_back();
        }
        REQUIRE_OK(gpurun_give_back(&loans.back().loan, stream));
        loans.pop_back();
    }
    if (rank() == 0)
        REQUIRE_OK(gpurun_wait(&requests.back(), stream, nullptr));
    stream.synchronize();
    if (rank() == 0) {
        const Bytes got = memory.read();
        for (size_t i = 0; i < 3 * kTurns; ++i)
            CHECK(got[i] == 1 + i % 3);
    }
}

TEST_CASE("borrowed tensors are lent on with own ones, but not those of two loans") {
    if (!takes_part())
        return;
    std::vector<int64_t> shape{50};
    const auto tensor = [&](void* data) {
        DLTensor made{};
        made.data = data;
        made.device = {1, 0};
        made.ndim = 1;
        made.dtype = {0, 8, 1};
        made.shape = shape.data();
        return made;
    };
    const auto lend_tensors = [&](const std::vector<DLTensor>& tensors, int to, gpurun_request* request) {
        return gpurun_lend_tensors(tensors.data(), nullptr, tensors.size(), nullptr, 0, GPURUN_LOAN_SHARED, to, kLoan,
                                   kWorld, GPURUN_HOST, request);
    };
    const auto tensors_of = [](gpurun_loan loan) {
        const DLTensor* tensors = nullptr;
        size_t count = 0;
        REQUIRE_OK(gpurun_loan_tensors(loan, &tensors, nullptr, &count));
        REQUIRE(count == 2);
        return tensors;
    };
    const auto byte_at = [](const void* at) {
        uint8_t byte = 0;
        REQUIRE_OK(gpurun_memcpy(&byte, at, 1, GPURUN_HOST));
        return byte;
    };
    Memory memory(Kind::kDevice, 1000), other(Kind::kDevice, 1000);
    const Memory third(Kind::kDevice, 100);
    memory.write(Bytes(1000, static_cast<uint8_t>(10 + rank())));
    other.write(Bytes(1000, static_cast<uint8_t>(20 + rank())));
    gpurun_request requests[2]{};
    if (rank() == 0) {
        REQUIRE_OK(lend_tensors({tensor(memory.at(200)), tensor(other.at(300))}, 1, &requests[0]));
        requests[1] = lend(third.get(), 100, 1, GPURUN_HOST, GPURUN_LOAN_SHARED);
        REQUIRE_OK(gpurun_waitall(2, requests, GPURUN_HOST, nullptr));
        CHECK(memory.read()[200] == 99);
    } else if (rank() == 1) {
        Borrowed got = borrow(0, GPURUN_HOST), second = borrow(0, GPURUN_HOST);
        const DLTensor* const tensors = tensors_of(got.loan);
        REQUIRE_OK(lend_tensors({tensor(memory.at(5)), tensor(tensors[0].data)}, 2, &requests[0]));
        REQUIRE_OK(gpurun_wait(&requests[0], GPURUN_HOST, nullptr));
        shape[0] = 10;
        refused(lend_tensors({tensor(tensors[0].data), tensor(second.at)}, 2, &requests[0]), GPURUN_ERR_LOAN,
                "several loans");
        REQUIRE_OK(gpurun_give_back(&second.loan, GPURUN_HOST));
        REQUIRE_OK(gpurun_give_back(&got.loan, GPURUN_HOST));
    } else {
        Borrowed got = borrow(1, GPURUN_HOST);
        const DLTensor* const tensors = tensors_of(got.loan);
        CHECK(byte_at(tensors[0].data) == 11);
        CHECK(byte_at(tensors[1].data) == 10);
        REQUIRE_OK(gpurun_memset(tensors[1].data, 99, 1, GPURUN_HOST));
        REQUIRE_OK(gpurun_give_back(&got.loan, GPURUN_HOST));
    }
}

TEST_CASE("memory that was lent on is unregistered once the last has unmapped it") {
    if (!takes_part())
        return;
    for (int round = 0; round < 3; ++round)
        if (rank() == 0) {
            Memory memory(Kind::kDevice, kBytes);
            gpurun_request request = lend(memory.get(), kBytes, 1, GPURUN_HOST);
            REQUIRE_OK(gpurun_wait(&request, GPURUN_HOST, nullptr));
            refused(gpurun_unregister(memory.get(), 0), GPURUN_ERR_TIMEOUT, "2");
            REQUIRE_OK(gpurun_unregister(memory.get(), 60'000));
            tell(1);
            tell(2);
        } else {
            Borrowed got = borrow(rank() - 1, GPURUN_HOST);
            if (rank() == 1) {
                gpurun_request request = lend(got.at, kBytes, 2, GPURUN_HOST);
                REQUIRE_OK(gpurun_wait(&request, GPURUN_HOST, nullptr));
            }
            REQUIRE_OK(gpurun_give_back(&got.loan, GPURUN_HOST));
            await(0);
        }
}

TEST_CASE("a loan that is lent on is taken back by who has lent it on") {
    if (!takes_part())
        return;
    if (rank() == 0) {
        Memory memory(Kind::kDevice, 100);
        gpurun_request request = lend(memory.get(), 100, 1, GPURUN_HOST);
        REQUIRE_OK(gpurun_wait(&request, GPURUN_HOST, nullptr));
    } else if (rank() == 1) {
        gpurun_message_status status{};
        Borrowed got = borrow(0, GPURUN_HOST);
        gpurun_request request = lend(got.at, 100, 2, GPURUN_HOST);
        REQUIRE_OK(gpurun_cancel(&request));
        REQUIRE_OK(gpurun_wait(&request, GPURUN_HOST, &status));
        CHECK(status.cancelled == 1);
        REQUIRE_OK(gpurun_give_back(&got.loan, GPURUN_HOST));
        tell(2);
    } else {
        await(1);
    }
}

TEST_SUITE_END();

} // namespace gpurun::test::lending_on
