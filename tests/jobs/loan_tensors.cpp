// Loans of tensors, as DLPack describes them.
#include "graphs.hpp"
#include "support/dl_tensor.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

namespace gpurun::test::loan_tensors {

namespace {

constexpr int kTag = 6, kGo = 7;
constexpr int32_t kCpu = 1;
constexpr uint8_t kFloat = 2;

bool lends() { return rank() % 2 == 0; }

DLTensor make_tensor(void* data, std::vector<int64_t>& shape, std::vector<int64_t>* strides = nullptr,
                     uint8_t bits = 32) {
    DLTensor tensor{};
    tensor.data = data;
    tensor.device = {kCpu, 3};
    tensor.ndim = static_cast<int32_t>(shape.size());
    tensor.dtype = {kFloat, bits, 1};
    tensor.shape = shape.data();
    tensor.strides = strides != nullptr ? strides->data() : nullptr;
    return tensor;
}

gpurun_status lend(const std::vector<DLTensor>& tensors, const char* const* names, const std::string& metadata, int to,
                   gpurun_stream order, gpurun_request* ret_request) {
    return gpurun_lend_tensors(tensors.data(), names, tensors.size(), metadata.data(), metadata.size(),
                               GPURUN_LOAN_EXCLUSIVE, to, kTag, kWorld, order, ret_request);
}

struct Borrowed {
    gpurun_loan loan{};
    const DLTensor* tensors = nullptr;
    const char* const* names = nullptr;
    size_t count = 0;
};

// False if this rank cannot reach that memory; the loan has been given back then.
bool borrow(Borrowed& got, int source, gpurun_stream order) {
    const gpurun_status status = gpurun_borrow(source, kTag, kWorld, order, &got.loan, nullptr);
    if (status == GPURUN_ERR_UNSUPPORTED)
        return false;
    REQUIRE_OK(status);
    REQUIRE_OK(gpurun_loan_tensors(got.loan, &got.tensors, &got.names, &got.count));
    return true;
}

std::string metadata_of(gpurun_loan loan) {
    const void* metadata = nullptr;
    size_t bytes = 0;
    REQUIRE_OK(gpurun_loan_metadata(loan, &metadata, &bytes));
    return bytes == 0 ? std::string() : std::string(static_cast<const char*>(metadata), bytes);
}

} // namespace

TEST_SUITE_BEGIN("loans");

TEST_CASE("tensors of several allocations arrive with shapes, strides, types, names and metadata") {
    if (partner() == GPURUN_PROC_NULL)
        return;
    const Stream stream;
    std::vector<int64_t> matrix{10, 20}, row{20}, none{0, 5}, scalar{}, back{-1}, transposed{1, 20};
    if (lends()) {
        Memory first(Kind::kDevice, 4000), second(Kind::kDevice, 3000);
        const Bytes content = pattern(4000, 3);
        first.write(content);
        second.write(Bytes(3000, 9));
        std::vector<DLTensor> tensors{make_tensor(first.at(400), matrix), make_tensor(second.at(80), row, &back),
                                      make_tensor(nullptr, none), make_tensor(first.at(8), scalar, nullptr, 64),
                                      make_tensor(second.at(100), matrix, &transposed, 8)};
        tensors[1].byte_offset = 40;
        const char* const names[] = {"weight", "bias", nullptr, "", "other"};
        gpurun_request request{};
        REQUIRE_OK(lend(tensors, names, "{\"step\": 5}", partner(), stream, &request));
        CHECK(gpurun_memset(first.at(400), 0, 1, stream) == GPURUN_ERR_LOAN);
        CHECK(gpurun_free(second.get()) == GPURUN_ERR_LOAN);
        REQUIRE_OK(gpurun_wait(&request, stream, nullptr));
        stream.synchronize();
        int reached = 0;
        REQUIRE_OK(gpurun_recv(&reached, 1, GPURUN_INT32, partner(), kGo, kWorld, GPURUN_HOST, nullptr));
        CHECK(first.read()[400] == (reached != 0 ? 77 : content[400]));
        return;
    }
    Borrowed got;
    const int reached = borrow(got, partner(), stream) ? 1 : 0;
    if (reached != 0) {
        REQUIRE(got.count == 5);
        CHECK(metadata_of(got.loan) == "{\"step\": 5}");
        CHECK(std::string(got.names[0]) == "weight");
        CHECK(std::string(got.names[2]).empty());
        CHECK(std::string(got.names[4]) == "other");
        const DLTensor& weight = got.tensors[0];
        CHECK(weight.ndim == 2);
        CHECK(weight.shape[0] == 10);
        CHECK(weight.shape[1] == 20);
        CHECK(weight.strides == nullptr);
        CHECK(weight.dtype.bits == 32);
        CHECK(weight.device.id == 3);
        CHECK(got.tensors[1].strides[0] == -1);
        CHECK(got.tensors[2].data == nullptr);
        CHECK(got.tensors[2].shape[1] == 5);
        CHECK(got.tensors[3].ndim == 0);
        CHECK(got.tensors[4].strides[1] == 20);
        const auto* const base = static_cast<const uint8_t*>(weight.data) - 400;
        CHECK(got.tensors[3].data == base + 8);
        CHECK(static_cast<const uint8_t*>(got.tensors[4].data) - static_cast<const uint8_t*>(got.tensors[1].data) ==
              100 - 120); // the byte offset is in the address
        Bytes seen(4000), others(200);
        REQUIRE_OK(gpurun_memcpy(seen.data(), base, 4000, stream));
        REQUIRE_OK(gpurun_memcpy(others.data(), got.tensors[4].data, 200, stream));
        stream.synchronize();
        CHECK(first_difference(seen, pattern(4000, 3)) == -1);
        CHECK(first_difference(others, Bytes(200, 9)) == -1);
        REQUIRE_OK(gpurun_memset(weight.data, 77, 1, stream));
        REQUIRE_OK(gpurun_give_back(&got.loan, stream));
    }
    REQUIRE_OK(gpurun_send(&reached, 1, GPURUN_INT32, partner(), kGo, kWorld, GPURUN_HOST));
    stream.synchronize();
}

// What lies at the address of freed memory is mapped once the old mapping can be closed: with graphs in the job, not
// while a stream of this rank waits for another rank, as it does here for the lender's.
TEST_CASE("tensors of an allocation at the address of one that was freed are borrowed, though the lender is slow") {
    if (partner() == GPURUN_PROC_NULL)
        return;
    (void)can_capture(partner()); // there have been graphs now
    const Stream stream, late;
    std::vector<int64_t> shape{64};
    const Memory first(Kind::kDevice, 1000), note(Kind::kDevice, 8);
    for (int round = 0; round < 4; round++) {
        const Memory second(Kind::kDevice, 700'000); // mostly at the address of the one of the round before
        if (lends()) {
            REQUIRE_OK(gpurun_memset(second.get(), 40 + round, 1000, stream));
            delay(stream, 50'000);
            const std::vector<DLTensor> tensors{make_tensor(first.get(), shape), make_tensor(second.get(), shape)};
            gpurun_request request{};
            REQUIRE_OK(lend(tensors, nullptr, "", partner(), stream, &request));
            REQUIRE_OK(gpurun_wait(&request, stream, nullptr));
            stream.synchronize();
            delay(late, 50'000);
            REQUIRE_OK(gpurun_send(note.get(), 8, GPURUN_BYTE, partner(), kGo, kWorld, late));
            continue;
        }
        Borrowed got;
        if (borrow(got, partner(), stream)) {
            REQUIRE(got.count == 2);
            Bytes seen(256);
            REQUIRE_OK(gpurun_memcpy(seen.data(), got.tensors[1].data, seen.size(), stream));
            REQUIRE_OK(gpurun_give_back(&got.loan, stream));
            stream.synchronize();
            CHECK(first_difference(seen, Bytes(256, static_cast<uint8_t>(40 + round))) == -1);
        }
        REQUIRE_OK(gpurun_recv(note.get(), 8, GPURUN_BYTE, partner(), kGo, kWorld, late, nullptr));
    }
}

TEST_CASE("ten thousand tensors are one loan, and come in any kind of loan after it") {
    if (partner() == GPURUN_PROC_NULL)
        return;
    constexpr size_t kMany = 10'000;
    Memory memory(Kind::kDevice, kMany * 16);
    std::vector<int64_t> shape{2, 2};
    for (int round = 0; round < 3; ++round) {
        if (lends()) {
            std::vector<DLTensor> tensors;
            for (size_t i = 0; i < kMany; ++i)
                tensors.push_back(make_tensor(memory.at(16 * i), shape));
            gpurun_request request{};
            REQUIRE_OK(lend(tensors, nullptr, std::string(60'000, 'm'), partner(), GPURUN_HOST, &request));
            tensors.clear(); // all is copied
            REQUIRE_OK(gpurun_wait(&request, GPURUN_HOST, nullptr));
        } else if (Borrowed got; borrow(got, partner(), GPURUN_HOST)) {
            REQUIRE(got.count == kMany);
            CHECK(metadata_of(got.loan) == std::string(60'000, 'm'));
            bool right = true;
            for (size_t i = 0; i < kMany; ++i)
                right = right &&
                        static_cast<const uint8_t*>(got.tensors[i].data) ==
                            static_cast<const uint8_t*>(got.tensors[0].data) + 16 * i &&
                        got.tensors[i].shape[1] == 2;
            CHECK(right);
            REQUIRE_OK(gpurun_give_back(&got.loan, GPURUN_HOST));
        }
    }
}

TEST_CASE("a loan of tensors that is received, or taken back, leaves nothing behind") {
    if (partner() == GPURUN_PROC_NULL)
        return;
    Memory memory(Kind::kDevice, 1000);
    std::vector<int64_t> shape{10};
    const std::vector<DLTensor> tensors{make_tensor(memory.get(), shape)};
    const std::string large(60'000, 'x'); // a message that stays with its source
    for (const std::string& metadata : {std::string("small"), large})
        for (int round = 0; round < 20; ++round) {
            gpurun_message_status status{};
            gpurun_request request{};
            if (lends()) {
                REQUIRE_OK(lend(tensors, nullptr, metadata, partner(), GPURUN_HOST, &request));
                REQUIRE_OK(gpurun_cancel(&request));
                REQUIRE_OK(gpurun_wait(&request, GPURUN_HOST, &status));
                CHECK(status.cancelled == 1);
                REQUIRE_OK(gpurun_send(nullptr, 0, GPURUN_BYTE, partner(), kGo, kWorld, GPURUN_HOST));
                REQUIRE_OK(lend(tensors, nullptr, metadata, partner(), GPURUN_HOST, &request));
                REQUIRE_OK(gpurun_wait(&request, GPURUN_HOST, &status));
                CHECK(status.cancelled == 0);
            } else {
                REQUIRE_OK(gpurun_recv(nullptr, 0, GPURUN_BYTE, partner(), kGo, kWorld, GPURUN_HOST, nullptr));
                REQUIRE_OK(gpurun_recv(memory.get(), 1000, GPURUN_BYTE, partner(), kTag, kWorld, GPURUN_HOST, &status));
                CHECK(status.bytes == 40);
            }
        }
}

TEST_CASE("a receive of a single tensor without gaps gets a copy, and of others the order alone") {
    if (partner() == GPURUN_PROC_NULL)
        return;
    Memory memory(Kind::kDevice, 1000);
    std::vector<int64_t> shape{2, 5};
    std::vector<int64_t> gaps{20, 2};
    const DLTensor compact = make_tensor(memory.at(100), shape);
    const DLTensor strided = make_tensor(memory.get(), shape, &gaps);
    for (const std::vector<DLTensor>& tensors : {std::vector{compact}, std::vector{strided}, std::vector(2, compact)}) {
        const size_t expected = tensors.size() == 1 && tensors[0].strides == nullptr ? 40 : 0;
        gpurun_message_status status{};
        if (lends()) {
            REQUIRE_OK(gpurun_memset(memory.get(), 0, 1000, GPURUN_HOST));
            REQUIRE_OK(gpurun_memset(memory.at(100), 7, 40, GPURUN_HOST));
            gpurun_request request{};
            REQUIRE_OK(lend(tensors, nullptr, "", partner(), GPURUN_HOST, &request));
            REQUIRE_OK(gpurun_wait(&request, GPURUN_HOST, nullptr));
        } else {
            std::vector<unsigned char> got(50, 1);
            REQUIRE_OK(gpurun_recv(got.data(), got.size(), GPURUN_BYTE, partner(), kTag, kWorld, GPURUN_HOST, &status));
            CHECK(status.bytes == expected);
            CHECK(std::count(got.begin(), got.end(), 7) == static_cast<long>(expected));
        }
    }
}

TEST_CASE("a rank lends tensors to itself, and none") {
    for (const Kind kind : kKinds) {
        Memory memory(kind, 1000);
        std::vector<int64_t> shape{10};
        std::vector<int64_t> back{-1};
        const std::vector<DLTensor> tensors{make_tensor(memory.at(100), shape, &back),
                                            make_tensor(memory.get(), shape)};
        for (const size_t count : {size_t{2}, size_t{0}}) {
            gpurun_request request{};
            Borrowed got;
            REQUIRE_OK(gpurun_lend_tensors(tensors.data(), nullptr, count, nullptr, 0, GPURUN_LOAN_SHARED, rank(), kTag,
                                           kWorld, GPURUN_HOST, &request));
            REQUIRE(borrow(got, rank(), GPURUN_HOST));
            REQUIRE(got.count == count);
            CHECK(metadata_of(got.loan).empty());
            if (count != 0)
                CHECK(got.tensors[0].data == memory.at(100));
            REQUIRE_OK(gpurun_give_back(&got.loan, GPURUN_HOST));
            REQUIRE_OK(gpurun_wait(&request, GPURUN_HOST, nullptr));
        }
    }
}

TEST_CASE("tensors that cannot be lent are refused, and named") {
    Memory memory(Kind::kDevice, 1000);
    std::vector<int64_t> shape{10}, negative{-1}, huge{INT64_MAX / 2, 8};
    gpurun_request request{};
    const auto refused = [&](const DLTensor& tensor, gpurun_status expected) {
        const std::vector<DLTensor> tensors{make_tensor(memory.get(), shape), tensor};
        CHECK(lend(tensors, nullptr, "", rank(), GPURUN_HOST, &request) == expected);
    };
    refused(make_tensor(memory.get(), negative), GPURUN_ERR_COUNT);
    CHECK(std::string(gpurun_error_detail()).find("tensor 1") != std::string::npos);
    refused(make_tensor(memory.get(), huge), GPURUN_ERR_COUNT);
    refused(make_tensor(memory.at(980), shape), GPURUN_ERR_BUFFER);
    refused(make_tensor(nullptr, shape), GPURUN_ERR_BUFFER);
    CHECK(gpurun_lend_tensors(nullptr, nullptr, 1, nullptr, 0, GPURUN_LOAN_SHARED, rank(), kTag, kWorld, GPURUN_HOST,
                              &request) == GPURUN_ERR_ARGUMENT);
    if (partner() == GPURUN_PROC_NULL)
        return;
    Memory pageable(Kind::kPageable, 1000);
    const std::vector<DLTensor> tensors{make_tensor(pageable.get(), shape)};
    CHECK(lend(tensors, nullptr, "", partner(), GPURUN_HOST, &request) == GPURUN_ERR_UNSUPPORTED);
}

TEST_SUITE_END();

} // namespace gpurun::test::loan_tensors
