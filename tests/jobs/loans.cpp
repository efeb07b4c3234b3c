// Loans: memory that is handed over in place, in order, and comes back.
#include "lending.hpp"

#include <atomic>
#include <memory>
#include <string>
#include <vector>

namespace gpurun::test::loans {

namespace {

constexpr int kLoan = 3, kGo = 4, kOther = 5;
constexpr size_t kBytes = 300001;

using lending::Borrowed;
using lending::read;

void tell(int to) { lending::tell(to, kGo); }
void await(int from) { lending::await(from, kGo); }

bool lends() { return rank() % 2 == 0; }

gpurun_request lend(uint8_t* buffer, size_t bytes, gpurun_stream order, int tag = kLoan,
                    gpurun_loan_kind kind = GPURUN_LOAN_EXCLUSIVE) {
    return lending::lend(buffer, bytes, kind, partner(), tag, order);
}

Borrowed borrow(gpurun_stream order, int tag = kLoan, int source = GPURUN_ANY_SOURCE) {
    gpurun_message_status status{};
    const Borrowed got = lending::borrow(source, tag, order, &status);
    CHECK(status.source == partner());
    CHECK(status.bytes == got.bytes);
    return got;
}

// Whether the partners reach each other's memory. If not, the borrower is told so, and receives it.
bool reach_each_other() {
    static int answer = -1;
    if (answer != -1)
        return answer == 1;
    Memory lent(Kind::kDevice, 64);
    int mine = 1, theirs = 0;
    if (lends()) {
        gpurun_request request = lend(lent.get(), 64, GPURUN_HOST);
        REQUIRE_OK(gpurun_wait(&request, GPURUN_HOST, nullptr));
    } else {
        mine = lending::can_borrow(partner(), kLoan) ? 1 : 0;
    }
    REQUIRE_OK(gpurun_sendrecv(&mine, 1, GPURUN_INT32, partner(), kGo, &theirs, 1, GPURUN_INT32, partner(), kGo, kWorld,
                               GPURUN_HOST, nullptr));
    answer = lends() ? theirs : mine;
    return answer == 1;
}

bool can_test() { return partner() != GPURUN_PROC_NULL && reach_each_other(); }

} // namespace

TEST_SUITE_BEGIN("loans");

TEST_CASE("a borrower works on lent memory where it lies, and the lender goes on after it") {
    if (!can_test())
        return;
    const Stream stream;
    for (const gpurun_stream order : {static_cast<gpurun_stream>(stream), GPURUN_HOST})
        for (const size_t offset : {size_t{0}, size_t{77}}) {
            const size_t bytes = kBytes - offset;
            const Bytes before = pattern(bytes, 1), after = pattern(bytes, 2);
            if (lends()) {
                Memory memory(Kind::kDevice, kBytes), source(Kind::kPinned, bytes);
                source.write(before);
                delay(order, 3000);
                REQUIRE_OK(gpurun_memcpy(memory.at(offset), source.get(), bytes, order));
                gpurun_request request = lend(memory.at(offset), bytes, order);
                REQUIRE_OK(gpurun_wait(&request, order, nullptr));
                CHECK(request.id == 0);
                CHECK(first_difference(read(memory.at(offset), bytes, order), after) == -1);
            } else {
                Memory source(Kind::kPinned, bytes), copy(Kind::kDevice, bytes);
                source.write(after);
                Borrowed got = borrow(order);
                REQUIRE(got.bytes == bytes);
                REQUIRE_OK(gpurun_memcpy(copy.get(), got.at, bytes, order));
                delay(order, 3000);
                REQUIRE_OK(gpurun_memcpy(got.at, source.get(), bytes, order));
                REQUIRE_OK(gpurun_give_back(&got.loan, order));
                CHECK(got.loan.id == 0);
                synchronize(order);
                CHECK(first_difference(copy.read(), before) == -1);
            }
        }
}

TEST_CASE("the lender may overwrite the memory in its stream as soon as the loan's completion is enqueued") {
    if (!can_test())
        return;
    const Stream stream, other;
    constexpr int kRounds = 40;
    Memory memory(Kind::kDevice, kBytes);
    for (int round = 0; round < kRounds; ++round) {
        const auto content = static_cast<uint8_t>(round);
        if (lends()) {
            REQUIRE_OK(gpurun_memset(memory.get(), content, kBytes, stream));
            gpurun_request request = lend(memory.get(), kBytes, stream);
            REQUIRE_OK(gpurun_wait(&request, round % 2 == 0 ? stream : other, nullptr));
            REQUIRE_OK(gpurun_memset(memory.get(), 0xee, kBytes, round % 2 == 0 ? stream : other));
            other.synchronize();
        } else {
            Borrowed got = borrow(stream);
            delay(stream, round % 8 * 100);
            REQUIRE_OK(gpurun_memcpy(memory.get(), got.at, kBytes, stream));
            REQUIRE_OK(gpurun_give_back(&got.loan, stream));
            stream.synchronize();
            CHECK(first_difference(memory.read(), Bytes(kBytes, content)) == -1);
        }
    }
}

TEST_CASE("a receive that meets a loan gets a copy, and the loan is given back") {
    if (partner() == GPURUN_PROC_NULL)
        return;
    const Stream stream;
    (void)reach_each_other();
    for (const gpurun_stream order : {static_cast<gpurun_stream>(stream), GPURUN_HOST})
        for (const Kind kind : kKinds)
            for (const size_t bytes : {size_t{1}, size_t{5000}, kBytes}) {
                const Bytes content = pattern(bytes, bytes);
                if (lends()) {
                    Memory memory(Kind::kDevice, bytes);
                    memory.write(content);
                    delay(order, 500);
                    gpurun_request request = lend(memory.get(), bytes, order);
                    REQUIRE_OK(gpurun_wait(&request, order, nullptr));
                    REQUIRE_OK(gpurun_memset(memory.get(), 0xee, bytes, order));
                    synchronize(order);
                } else {
                    Memory memory(kind, bytes);
                    gpurun_message_status status{};
                    REQUIRE_OK(gpurun_recv(memory.get(), bytes, GPURUN_BYTE, partner(), kLoan, kWorld, order, &status));
                    synchronize(order);
                    CHECK(status.bytes == bytes);
                    CHECK(first_difference(memory.read(), content) == -1);
                }
            }
}

TEST_CASE("loans are matched in order with messages, and probes see them") {
    if (!can_test())
        return;
    Memory memory(Kind::kDevice, 1000), other(Kind::kDevice, 1000);
    int number = 17;
    if (lends()) {
        memory.write(Bytes(1000, 1));
        other.write(Bytes(1000, 2));
        gpurun_request requests[] = {lend(memory.get(), 1000, GPURUN_HOST), {}};
        REQUIRE_OK(gpurun_send(&number, 1, GPURUN_INT32, partner(), kLoan, kWorld, GPURUN_HOST));
        requests[1] = lend(other.get(), 500, GPURUN_HOST);
        REQUIRE_OK(gpurun_waitall(2, requests, GPURUN_HOST, nullptr));
        return;
    }
    gpurun_message_status status{};
    REQUIRE_OK(gpurun_probe(GPURUN_ANY_SOURCE, GPURUN_ANY_TAG, kWorld, &status));
    CHECK(status.tag == kLoan);
    CHECK(status.bytes == 1000);
    Borrowed first = borrow(GPURUN_HOST, GPURUN_ANY_TAG, partner());
    CHECK(first.bytes == 1000);
    gpurun_loan none{};
    CHECK(gpurun_borrow(partner(), kLoan, kWorld, GPURUN_HOST, &none, nullptr) == GPURUN_ERR_LOAN);
    CHECK(none.id == 0);
    REQUIRE_OK(gpurun_recv(&number, 1, GPURUN_INT32, partner(), kLoan, kWorld, GPURUN_HOST, nullptr));
    CHECK(number == 17);
    Borrowed second = borrow(GPURUN_HOST);
    CHECK(second.bytes == 500);
    CHECK(first_difference(read(first.at, 1000, GPURUN_HOST), Bytes(1000, 1)) == -1);
    CHECK(first_difference(read(second.at, 500, GPURUN_HOST), Bytes(500, 2)) == -1);
    REQUIRE_OK(gpurun_give_back(&second.loan, GPURUN_HOST));
    REQUIRE_OK(gpurun_give_back(&first.loan, GPURUN_HOST));
}

TEST_CASE("a loan that nobody has taken is taken back, and one that is borrowed is not") {
    if (!can_test())
        return;
    const Stream stream;
    for (const gpurun_stream order : {static_cast<gpurun_stream>(stream), GPURUN_HOST}) {
        Memory memory(Kind::kDevice, 1000);
        gpurun_message_status status{};
        if (lends()) {
            gpurun_request request = lend(memory.get(), 1000, order);
            REQUIRE_OK(gpurun_cancel(&request));
            REQUIRE_OK(gpurun_wait(&request, order, &status));
            CHECK(status.cancelled == 1);
            tell(partner());
            request = lend(memory.get(), 500, order);
            await(partner());
            REQUIRE_OK(gpurun_cancel(&request));
            tell(partner());
            REQUIRE_OK(gpurun_wait(&request, order, &status));
            CHECK(status.cancelled == 0);
        } else {
            await(partner());
            Borrowed got = borrow(order);
            CHECK(got.bytes == 500);
            tell(partner());
            await(partner());
            REQUIRE_OK(gpurun_give_back(&got.loan, order));
        }
    }
}

TEST_CASE("many loans are open at once, and hold up neither messages nor each other") {
    if (!can_test())
        return;
    const Stream stream;
    constexpr size_t kMany = 300, kPart = 1024;
    constexpr int kSlots = 120; // more than a pair has
    Memory memory(Kind::kDevice, kMany * kPart), large(Kind::kDevice, kBytes);
    if (lends()) {
        std::vector<gpurun_request> requests(kMany);
        for (size_t i = 0; i < kMany; ++i) {
            REQUIRE_OK(gpurun_memset(memory.at(i * kPart), static_cast<int>(i % 251), kPart, stream));
            requests[i] = lend(memory.at(i * kPart), kPart, stream, static_cast<int>(100 + i));
        }
        for (int i = 0; i < kSlots; ++i) // each of these needs a slot of the fence
            REQUIRE_OK(gpurun_send(large.get(), kBytes, GPURUN_BYTE, partner(), kOther, kWorld, stream));
        REQUIRE_OK(gpurun_waitall(kMany, requests.data(), stream, nullptr));
        Bytes expected(kMany * kPart);
        for (size_t i = 0; i < expected.size(); ++i)
            expected[i] = static_cast<uint8_t>(i / kPart % 251 + 1);
        CHECK(first_difference(read(memory.get(), memory.size(), stream), expected) == -1);
    } else {
        std::vector<Borrowed> got(kMany);
        for (size_t i = kMany; i-- > 0;)
            got[i] = borrow(stream, static_cast<int>(100 + i));
        for (int i = 0; i < kSlots; ++i)
            REQUIRE_OK(gpurun_recv(large.get(), kBytes, GPURUN_BYTE, partner(), kOther, kWorld, stream, nullptr));
        for (size_t i = 0; i < kMany; ++i) {
            REQUIRE_OK(gpurun_memset(got[i].at, static_cast<int>(i % 251 + 1), kPart, stream));
            REQUIRE_OK(gpurun_give_back(&got[i].loan, stream));
        }
        stream.synchronize();
    }
}

TEST_CASE("more streams than there are slots lend and give back while they are behind") {
    if (!can_test())
        return;
    constexpr size_t kStreams = 14;
    std::vector<std::unique_ptr<Stream>> streams;
    for (size_t i = 0; i < kStreams; ++i)
        streams.push_back(std::make_unique<Stream>());
    Memory memory(Kind::kDevice, kStreams * 100);
    std::vector<gpurun_request> requests(kStreams);
    for (int round = 0; round < 3; ++round) {
        if (lends()) {
            for (size_t i = 0; i < kStreams; ++i) {
                delay(*streams[i], 2000);
                REQUIRE_OK(gpurun_memset(memory.at(i * 100), static_cast<int>(i), 100, *streams[i]));
                requests[i] = lend(memory.at(i * 100), 100, *streams[i], static_cast<int>(100 + i));
            }
            for (size_t i = 0; i < kStreams; ++i) {
                REQUIRE_OK(gpurun_wait(&requests[i], *streams[i], nullptr));
                CHECK(first_difference(read(memory.at(i * 100), 100, *streams[i]),
                                       Bytes(100, static_cast<uint8_t>(i + 50))) == -1);
            }
        } else {
            std::vector<Borrowed> got(kStreams);
            for (size_t i = 0; i < kStreams; ++i) {
                got[i] = borrow(*streams[i], static_cast<int>(100 + i));
                REQUIRE_OK(gpurun_memcpy(memory.at(i * 100), got[i].at, 100, *streams[i]));
            }
            for (size_t i = kStreams; i-- > 0;) {
                delay(*streams[i], 2000);
                REQUIRE_OK(gpurun_memset(got[i].at, static_cast<int>(i + 50), 100, *streams[i]));
                REQUIRE_OK(gpurun_give_back(&got[i].loan, *streams[i]));
            }
            for (size_t i = 0; i < kStreams; ++i)
                CHECK(first_difference(read(memory.at(i * 100), 100, *streams[i]),
                                       Bytes(100, static_cast<uint8_t>(i))) == -1);
        }
    }
}

TEST_CASE("a rank lends to itself, to nobody, and nothing") {
    const Stream stream;
    for (const Kind kind : kKinds) {
        Memory memory(kind, 1000);
        gpurun_request request{};
        gpurun_loan loan{};
        void* at = nullptr;
        REQUIRE_OK(gpurun_lend(memory.get(), 1000, GPURUN_LOAN_SHARED, rank(), kLoan, kWorld, stream, &request));
        REQUIRE_OK(gpurun_borrow(rank(), kLoan, kWorld, stream, &loan, nullptr));
        REQUIRE_OK(gpurun_loan_buffer(loan, &at, nullptr, nullptr));
        CHECK(at == memory.get());
        REQUIRE_OK(gpurun_give_back(&loan, stream));
        REQUIRE_OK(gpurun_wait(&request, stream, nullptr));
        stream.synchronize();
    }
    gpurun_request request{};
    gpurun_loan loan = gpurun_make_loan(5);
    gpurun_message_status status{};
    Memory memory(Kind::kDevice, 10);
    REQUIRE_OK(gpurun_lend(memory.get(), 10, GPURUN_LOAN_SHARED, GPURUN_PROC_NULL, kLoan, kWorld, stream, &request));
    REQUIRE_OK(gpurun_wait(&request, stream, nullptr));
    REQUIRE_OK(gpurun_borrow(GPURUN_PROC_NULL, kLoan, kWorld, stream, &loan, &status));
    CHECK(loan.id == 0);
    CHECK(status.source == GPURUN_PROC_NULL);
    REQUIRE_OK(gpurun_give_back(&loan, stream));
    if (partner() == GPURUN_PROC_NULL)
        return;
    if (lends()) {
        request = lend(nullptr, 0, stream);
        REQUIRE_OK(gpurun_wait(&request, stream, nullptr));
    } else {
        Borrowed got = borrow(stream);
        CHECK(got.bytes == 0);
        CHECK(got.at == nullptr);
        REQUIRE_OK(gpurun_give_back(&got.loan, stream));
    }
}

TEST_CASE("memory that other processes cannot map is refused, with what to do") {
    if (partner() == GPURUN_PROC_NULL)
        return;
    Memory memory(Kind::kPageable, 100);
    gpurun_request request = gpurun_make_request(7);
    CHECK(gpurun_lend(memory.get(), 100, GPURUN_LOAN_SHARED, partner(), kLoan, kWorld, GPURUN_HOST, &request) ==
          GPURUN_ERR_UNSUPPORTED);
    CHECK(request.id == 7);
    CHECK(std::string(gpurun_error_detail()).find("gpurun_malloc_host()") != std::string::npos);
}

TEST_CASE("what is lent exclusively is its borrower's alone, and nothing that is lent is freed") {
    if (!can_test())
        return;
    const Stream stream;
    uint8_t byte = 9;
    if (lends()) {
        Memory memory(Kind::kDevice, 1000);
        gpurun_request request = lend(memory.at(100), 500, stream);
        const auto refused = [&](gpurun_status status) {
            CHECK(status == GPURUN_ERR_LOAN);
            CHECK(std::string(gpurun_error_detail()).find("with tag 3") != std::string::npos);
        };
        gpurun_request other{};
        refused(gpurun_memset(memory.at(599), 0, 1, stream));
        refused(gpurun_memcpy(&byte, memory.at(100), 1, GPURUN_HOST));
        refused(gpurun_send(memory.at(0), 101, GPURUN_BYTE, rank(), kOther, kWorld, GPURUN_HOST));
        refused(gpurun_lend(memory.at(0), 1000, GPURUN_LOAN_SHARED, partner(), kOther, kWorld, stream, &other));
        refused(gpurun_lend(memory.at(500), 100, GPURUN_LOAN_EXCLUSIVE, partner(), kOther, kWorld, stream, &other));
        refused(gpurun_free(memory.get()));
        REQUIRE_OK(gpurun_memset(memory.at(600), 0, 400, stream)); // beside it
        REQUIRE_OK(gpurun_memset(memory.at(0), 0, 100, stream));
        tell(partner());
        REQUIRE_OK(gpurun_wait(&request, stream, nullptr));
        REQUIRE_OK(gpurun_memcpy(&byte, memory.at(100), 1, stream));
        stream.synchronize();
        CHECK(byte == 7);
    } else {
        Borrowed got = borrow(stream);
        await(partner());
        REQUIRE_OK(gpurun_memset(got.at, 7, 500, stream));
        CHECK(gpurun_memset(got.at, 7, 501, stream) == GPURUN_ERR_BUFFER);
        CHECK(gpurun_free(got.at) == GPURUN_ERR_LOAN);
        REQUIRE_OK(gpurun_give_back(&got.loan, stream));
    }
}

TEST_CASE("what is borrowed read-only is read and sent on, and not written") {
    if (!can_test())
        return;
    const Stream stream;
    const Bytes content = pattern(kBytes, 5);
    if (lends()) {
        Memory memory(Kind::kDevice, kBytes), copy(Kind::kDevice, kBytes);
        memory.write(content);
        gpurun_request request = lend(memory.get(), kBytes, stream, kLoan, GPURUN_LOAN_READ_ONLY);
        CHECK(first_difference(memory.read(), content) == -1); // all read
        REQUIRE_OK(gpurun_recv(copy.get(), kBytes, GPURUN_BYTE, partner(), kOther, kWorld, stream, nullptr));
        REQUIRE_OK(gpurun_wait(&request, stream, nullptr));
        stream.synchronize();
        CHECK(first_difference(copy.read(), content) == -1);
    } else {
        Borrowed got = borrow(stream);
        gpurun_loan_kind kind{};
        void* at = nullptr;
        REQUIRE_OK(gpurun_loan_buffer(got.loan, &at, nullptr, &kind));
        CHECK(kind == GPURUN_LOAN_READ_ONLY);
        CHECK(gpurun_memset(got.at, 0, 10, stream) == GPURUN_ERR_BUFFER);
        CHECK(gpurun_recv(got.at, 10, GPURUN_BYTE, partner(), kOther, kWorld, stream, nullptr) == GPURUN_ERR_BUFFER);
        REQUIRE_OK(gpurun_send(got.at, kBytes, GPURUN_BYTE, partner(), kOther, kWorld, stream));
        REQUIRE_OK(gpurun_give_back(&got.loan, stream));
        stream.synchronize();
    }
}

TEST_CASE("several ranks borrow the same memory at once") {
    if (size() < 3)
        return;
    const Stream stream;
    Memory memory(Kind::kDevice, 4096);
    std::vector<gpurun_request> requests(static_cast<size_t>(size()) - 1);
    if (rank() == 0) {
        memory.write(Bytes(4096, 0));
        for (int to = 1; to < size(); ++to)
            REQUIRE_OK(gpurun_lend(memory.get(), 4096, GPURUN_LOAN_SHARED, to, kLoan, kWorld, stream,
                                   &requests[static_cast<size_t>(to) - 1]));
        // A loan is open until its request is complete.
        CHECK(gpurun_free(memory.get()) == GPURUN_ERR_LOAN);
        for (int to = 1; to < size(); ++to)
            CHECK(std::string(gpurun_error_detail()).find("rank " + std::to_string(to) + " with tag 3") !=
                  std::string::npos);
        REQUIRE_OK(gpurun_waitall(requests.size(), requests.data(), stream, nullptr));
        const Bytes written = read(memory.get(), 4096, stream);
        for (int from = 1; from < size(); ++from)
            CHECK((written[static_cast<size_t>(from)] == from || written[static_cast<size_t>(from)] == 0));
    } else {
        gpurun_loan loan{};
        void* at = nullptr;
        const gpurun_status status = gpurun_borrow(0, kLoan, kWorld, stream, &loan, nullptr);
        if (status == GPURUN_ERR_UNSUPPORTED) { // out of reach
            REQUIRE_OK(gpurun_recv(memory.get(), 4096, GPURUN_BYTE, 0, kLoan, kWorld, stream, nullptr));
            stream.synchronize();
            return;
        }
        REQUIRE_OK(status);
        REQUIRE_OK(gpurun_loan_buffer(loan, &at, nullptr, nullptr));
        REQUIRE_OK(gpurun_memset(static_cast<uint8_t*>(at) + rank(), rank(), 1, stream));
        REQUIRE_OK(gpurun_give_back(&loan, stream));
        stream.synchronize();
    }
}

// Holds a stream until it is opened.
class Gate {
  public:
    explicit Gate(gpurun_stream stream) {
        REQUIRE_OK(gpurun_launch_host(
            stream, [](void* open) { static_cast<std::atomic<bool>*>(open)->wait(false); }, &open_));
    }
    void open() {
        open_ = true;
        open_.notify_all();
    }

  private:
    std::atomic<bool> open_{false};
};

TEST_CASE("memory is unregistered once nobody has it mapped, and a rank that has is named") {
    REQUIRE_OK(gpurun_unregister(nullptr, 0));
    uint8_t pageable = 0;
    CHECK(gpurun_unregister(&pageable, 0) == GPURUN_ERR_BUFFER);
    {
        const Memory pinned(Kind::kPinned, 100), own(Kind::kDevice, 100);
        REQUIRE_OK(gpurun_unregister(pinned.get(), 0));
        REQUIRE_OK(gpurun_unregister(own.get(), 0));
    }
    if (!can_test())
        return;
    const Stream stream;
    for (int round = 0; round < 3; ++round) {
        if (lends()) {
            Memory memory(Kind::kDevice, kBytes);
            gpurun_request request = lend(memory.get(), kBytes, stream);
            CHECK(gpurun_unregister(memory.get(), 0) == GPURUN_ERR_LOAN);
            CHECK(std::string(gpurun_error_detail()).find("with tag 3") != std::string::npos);
            tell(partner());
            REQUIRE_OK(gpurun_wait(&request, stream, nullptr)); // the borrower's stream is still at it
            CHECK(gpurun_unregister(memory.at(77), 0) == GPURUN_ERR_TIMEOUT);
            CHECK(std::string(gpurun_error_detail()).find("by rank " + std::to_string(partner()) + ":") !=
                  std::string::npos);
            tell(partner());
            if (round != 0) { // it is borrowed again
                request = lend(memory.get(), kBytes, stream);
                REQUIRE_OK(gpurun_wait(&request, stream, nullptr));
            }
            REQUIRE_OK(gpurun_unregister(memory.get(), round == 1 ? -1 : 60'000));
            REQUIRE_OK(gpurun_unregister(memory.get(), 0));
            stream.synchronize();
        } else {
            Borrowed got = borrow(stream);
            CHECK(gpurun_unregister(got.at, 0) == GPURUN_ERR_LOAN);
            await(partner());
            Gate gate(stream);
            REQUIRE_OK(gpurun_give_back(&got.loan, stream));
            if (round != 0) {
                got = borrow(stream);
                REQUIRE_OK(gpurun_give_back(&got.loan, stream));
            }
            await(partner());
            gate.open();
            stream.synchronize();
        }
        if (lends()) // until then both are in calls
            tell(partner());
        else
            await(partner());
    }
}

TEST_CASE("a loan that was given back is no loan any more") {
    const Stream stream;
    Memory memory(Kind::kDevice, 100);
    gpurun_request request{};
    gpurun_loan loan{};
    void* at = nullptr;
    REQUIRE_OK(gpurun_lend(memory.get(), 100, GPURUN_LOAN_SHARED, rank(), kLoan, kWorld, GPURUN_HOST, &request));
    REQUIRE_OK(gpurun_borrow(rank(), kLoan, kWorld, GPURUN_HOST, &loan, nullptr));
    gpurun_loan old = loan;
    REQUIRE_OK(gpurun_give_back(&loan, GPURUN_HOST));
    CHECK(gpurun_give_back(&old, GPURUN_HOST) == GPURUN_ERR_LOAN);
    CHECK(gpurun_loan_buffer(old, &at, nullptr, nullptr) == GPURUN_ERR_LOAN);
    REQUIRE_OK(gpurun_wait(&request, GPURUN_HOST, nullptr));
}

TEST_SUITE_END();

} // namespace gpurun::test::loans
