#include "comm/tensor_list.hpp"

#include "base/check.hpp"
#include "base/format.hpp"

#include <cstring>

namespace gpurun::comm {

using base::Status;
using transfer::RemoteBuffer;

namespace {

void append(std::vector<std::byte>& to, const void* from, size_t bytes) {
    const auto* const first = static_cast<const std::byte*>(from);
    to.insert(to.end(), first, first + bytes);
}

} // namespace

base::Result<TensorList::Extent> TensorList::extent_of(const DLTensor& tensor) {
    if (tensor.ndim < 0 || tensor.ndim > kMostDimensions || (tensor.ndim > 0 && tensor.shape == nullptr))
        return base::error(Status::kCount, "it has {} dimensions, or no shape: there may be 0 to {}", tensor.ndim,
                           kMostDimensions);
    const int64_t element = (int64_t{tensor.dtype.bits} * tensor.dtype.lanes + 7) / 8;
    int64_t low = 0, high = 0, compact = element; // in bytes
    bool too_far = false;
    for (int32_t i = tensor.ndim; i-- > 0;) {
        const int64_t elements = tensor.shape[i];
        if (elements < 0)
            return base::error(Status::kCount, "dimension {} has {} elements", i, elements);
        if (elements == 0)
            return Extent{};
        int64_t stride = compact, reach = 0;
        if (tensor.strides != nullptr)
            too_far |= __builtin_mul_overflow(tensor.strides[i], element, &stride);
        too_far |= __builtin_mul_overflow(stride, elements - 1, &reach);
        int64_t& bound = reach < 0 ? low : high;
        too_far |= __builtin_add_overflow(bound, reach, &bound);
        too_far |= __builtin_mul_overflow(compact, elements, &compact);
    }
    int64_t bytes = 0;
    too_far |= __builtin_sub_overflow(high, low, &bytes) || __builtin_add_overflow(bytes, element, &bytes);
    if (too_far)
        return base::error(Status::kCount, "its shape and strides reach further than memory");
    if (element == 0)
        return Extent{};
    return Extent{static_cast<const std::byte*>(tensor.data) + tensor.byte_offset + low, static_cast<size_t>(bytes)};
}

void TensorList::add(const DLTensor& tensor, const char* name, size_t allocation) {
    Tensor entry{};
    if (allocation != kNowhere)
        entry.offset = static_cast<uint64_t>(static_cast<const std::byte*>(tensor.data) + tensor.byte_offset -
                                             allocations_[allocation].operand.address);
    entry.allocation = static_cast<uint32_t>(allocation);
    entry.dimensions = tensor.ndim;
    entry.device = tensor.device;
    entry.type = tensor.dtype;
    entry.has_strides = tensor.strides != nullptr ? 1 : 0;
    tensors_.push_back(entry);
    dimensions_.insert(dimensions_.end(), tensor.shape, tensor.shape + tensor.ndim);
    if (tensor.strides != nullptr)
        dimensions_.insert(dimensions_.end(), tensor.strides, tensor.strides + tensor.ndim);
    names_ += name != nullptr ? name : "";
    names_ += '\0';
}

std::vector<std::byte> TensorList::pack(std::span<const RemoteBuffer> remote) const {
    CHECK(remote.size() == allocations_.size());
    const Head head{remote.size(), tensors_.size(), dimensions_.size(), names_.size(), metadata_.size()};
    std::vector<std::byte> packed;
    packed.reserve(sizeof head + remote.size_bytes() + tensors_.size() * sizeof(Tensor) +
                   dimensions_.size() * sizeof(int64_t) + names_.size() + metadata_.size());
    append(packed, &head, sizeof head);
    append(packed, remote.data(), remote.size_bytes());
    append(packed, tensors_.data(), tensors_.size() * sizeof(Tensor));
    append(packed, dimensions_.data(), dimensions_.size() * sizeof(int64_t));
    append(packed, names_.data(), names_.size());
    append(packed, metadata_.data(), metadata_.size());
    return packed;
}

// ------------------------------------------------------------------------------------------------- of the borrower

TensorList::Head BorrowedTensors::head() const {
    TensorList::Head head;
    std::memcpy(&head, packed_.data(), sizeof head);
    return head;
}

RemoteBuffer BorrowedTensors::allocation(size_t index) const {
    RemoteBuffer found;
    std::memcpy(&found, packed_.data() + sizeof(TensorList::Head) + index * sizeof found, sizeof found);
    return found;
}

std::span<const std::byte> BorrowedTensors::metadata() const { return std::span(packed_).last(head().metadata_bytes); }

void BorrowedTensors::unpack(std::span<const std::byte* const> bases, uint32_t ordinal) {
    const TensorList::Head sizes = head();
    const std::byte* next = packed_.data() + sizeof sizes + sizes.allocations * sizeof(RemoteBuffer);
    const std::byte* entry_at = next;
    next += sizes.tensors * sizeof(TensorList::Tensor);
    dimensions_.resize(sizes.dimensions);
    if (sizes.dimensions != 0) // scalars have none
        std::memcpy(dimensions_.data(), next, sizes.dimensions * sizeof(int64_t));
    next += sizes.dimensions * sizeof(int64_t);
    tensors_.reserve(sizes.tensors);
    names_.reserve(sizes.tensors);
    int64_t* dimensions = dimensions_.data();
    const char* name = reinterpret_cast<const char*>(next);
    for (uint64_t i = 0; i < sizes.tensors; ++i, entry_at += sizeof(TensorList::Tensor)) {
        TensorList::Tensor entry;
        std::memcpy(&entry, entry_at, sizeof entry);
        DLTensor tensor{};
        if (entry.allocation != static_cast<uint32_t>(TensorList::kNowhere))
            tensor.data = const_cast<std::byte*>(bases[entry.allocation]) + entry.offset;
        tensor.device = entry.device;
        if (tensor.device.device_type == kDlCuda)
            tensor.device.device_id = static_cast<int32_t>(ordinal);
        tensor.ndim = entry.dimensions;
        tensor.dtype = entry.type;
        tensor.shape = dimensions;
        dimensions += entry.dimensions;
        if (entry.has_strides != 0) {
            tensor.strides = dimensions;
            dimensions += entry.dimensions;
        }
        tensors_.push_back(tensor);
        names_.push_back(name);
        name += std::strlen(name) + 1;
    }
}

} // namespace gpurun::comm
