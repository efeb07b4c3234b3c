// What tests of loans share: to lend, to borrow, and to find out whether that can be done here.
#pragma once

#include "support/dl_tensor.h"
#include "support/job.hpp"

#include <vector>

namespace gpurun::test::lending {

struct Borrowed {
    gpurun_loan loan{};
    uint8_t* at = nullptr;
    size_t bytes = 0;
    gpurun_loan_kind kind{};
};

inline gpurun_request lend(void* buffer, size_t bytes, gpurun_loan_kind kind, int to, int tag, gpurun_stream order) {
    gpurun_request request{};
    REQUIRE_OK(gpurun_lend(buffer, bytes, kind, to, tag, kWorld, order, &request));
    return request;
}

inline Borrowed borrow(int from, int tag, gpurun_stream order, gpurun_message_status* ret_status = nullptr) {
    Borrowed got;
    void* at = nullptr;
    REQUIRE_OK(gpurun_borrow(from, tag, kWorld, order, &got.loan, ret_status));
    REQUIRE_OK(gpurun_loan_buffer(got.loan, &at, &got.bytes, &got.kind));
    got.at = static_cast<uint8_t*>(at);
    return got;
}

// Borrows what `from` lends, 64 bytes of device memory, and gives it back. False if this rank does not reach that
// memory: then it has received it.
inline bool can_borrow(int from, int tag) {
    gpurun_loan loan{};
    const gpurun_status status = gpurun_borrow(from, tag, kWorld, GPURUN_HOST, &loan, nullptr);
    if (status == GPURUN_OK) {
        REQUIRE_OK(gpurun_give_back(&loan, GPURUN_HOST));
        return true;
    }
    CHECK(status == GPURUN_ERR_UNSUPPORTED);
    const Memory copy(Kind::kDevice, 64);
    REQUIRE_OK(gpurun_recv(copy.get(), 64, GPURUN_BYTE, from, tag, kWorld, GPURUN_HOST, nullptr));
    return false;
}

inline void tell(int to, int tag) { REQUIRE_OK(gpurun_send(nullptr, 0, GPURUN_BYTE, to, tag, kWorld, GPURUN_HOST)); }
inline void await(int from, int tag) {
    REQUIRE_OK(gpurun_recv(nullptr, 0, GPURUN_BYTE, from, tag, kWorld, GPURUN_HOST, nullptr));
}

// Of bytes. `shape` is part of it.
inline DLTensor make_tensor(void* data, std::vector<int64_t>& shape) {
    DLTensor tensor{};
    tensor.data = data;
    tensor.device = {1, 0};
    tensor.ndim = static_cast<int32_t>(shape.size());
    tensor.dtype = {0, 8, 1};
    tensor.shape = shape.data();
    return tensor;
}

// Copies in the order domain, and gives the copy once it is there.
inline Bytes read(const uint8_t* from, size_t bytes, gpurun_stream order) {
    Bytes content(bytes);
    REQUIRE_OK(gpurun_memcpy(content.data(), from, bytes, order));
    synchronize(order);
    return content;
}

} // namespace gpurun::test::lending
