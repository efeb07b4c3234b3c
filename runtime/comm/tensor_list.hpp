// The tensors of a loan: what their lender says of them, and what that becomes at the borrower.
//
// They travel as one message of host memory in front of the loan (Loans): the allocations, then the tensors by
// allocation and offset, their shapes and strides, their names, the user's metadata. Pure; knows no peer.
#pragma once

#include "base/status.hpp"
#include "comm/dlpack.hpp"
#include "transfer/memory/remote_buffer.hpp"
#include "transfer/operand.hpp"

#include <span>
#include <string>
#include <vector>

namespace gpurun::comm {

class TensorList {
  public:
    static constexpr size_t kMostTensors = 100'000;
    static constexpr size_t kMostMetadata = 65536;
    static constexpr int32_t kMostDimensions = 64;
    static constexpr size_t kNowhere = UINT32_MAX;

    // ---- of the lender
    // What is lent of an allocation. The operand is that of its first byte.
    struct Allocation {
        transfer::Operand operand;
        const std::byte* first = nullptr; // byte that is lent
        const std::byte* end = nullptr;
    };
    // The bytes that the tensor's elements lie in; none if it has no elements. kCount if it cannot be.
    struct Extent {
        const std::byte* first = nullptr;
        size_t bytes = 0;
        bool compact = false; // its elements follow each other, in the order of their indices
    };
    static base::Result<Extent> extent_of(const DLTensor& tensor);
    // `allocation`: which of allocations() it lies in; kNowhere: it has no elements.
    void add(const DLTensor& tensor, const char* name, size_t allocation);
    void set_metadata(std::span<const std::byte> metadata) { metadata_ = metadata; }
    std::vector<Allocation>& allocations() { return allocations_; }
    const std::vector<Allocation>& allocations() const { return allocations_; }
    // `remote`: the allocations, as the borrower gets to know them.
    std::vector<std::byte> pack(std::span<const transfer::RemoteBuffer> remote) const;

  private:
    friend class BorrowedTensors;
    struct Head {
        uint64_t allocations, tensors, dimensions, name_bytes, metadata_bytes;
    };
    struct Tensor {
        uint64_t offset; // in the allocation; of the tensor's data with its byte offset
        uint32_t allocation;
        int32_t dimensions;
        DLDevice device;
        DLDataType type;
        uint32_t has_strides;
    };

    std::vector<Allocation> allocations_;
    std::vector<Tensor> tensors_;
    std::vector<int64_t> dimensions_; // of each tensor: its shape, and its strides if it has any
    std::string names_;               // each ends in a 0
    std::span<const std::byte> metadata_;
};

// Owns what it points to.
class BorrowedTensors {
  public:
    explicit BorrowedTensors(std::vector<std::byte> packed) : packed_(std::move(packed)) {}
    BorrowedTensors(BorrowedTensors&&) = delete;

    size_t allocations() const { return head().allocations; }
    transfer::RemoteBuffer allocation(size_t index) const;
    // Of a single tensor that was copied: where its allocation would begin, had it been mapped.
    const std::byte* base_of_copy(const std::byte* copy) const;
    // `bases`: where the allocations lie here. `device`: the rank's own, on which copies are, and all that was on CUDA.
    void unpack(std::span<const std::byte* const> bases, const DLDevice& device, bool are_copies = false);

    std::span<const DLTensor> tensors() const { return tensors_; }
    std::span<const char* const> names() const { return names_; }
    std::span<const std::byte> metadata() const;

  private:
    TensorList::Head head() const;

    std::vector<std::byte> packed_;
    std::vector<DLTensor> tensors_;
    std::vector<int64_t> dimensions_;
    std::vector<const char*> names_;
};

} // namespace gpurun::comm
