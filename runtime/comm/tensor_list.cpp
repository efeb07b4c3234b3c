#include "comm/tensor_list.hpp"

#include "base/check.hpp"
#include "base/format.hpp"

#include <algorithm>
#include <cstring>

namespace gpurun::comm {

using base::Status;
using transfer::RemoteBuffer;

base::Result<TensorList::Extent> TensorList::extent_of(const DLTensor& tensor) {
    if (tensor.ndim < 0 || tensor.ndim > kMostDimensions || (tensor.ndim > 0 && tensor.shape == nullptr))
        return base::error(Status::kCount, "it has {} dimensions, or no shape: there may be 0 to {}", tensor.ndim,
                           kMostDimensions);
    const int64_t element = (int64_t{tensor.dtype.bits} * tensor.dtype.lanes + 7) / 8;
    int64_t low = 0, high = 0, compact = element; // in bytes
    bool too_far = false;
    bool in_order = true;
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
        in_order &= elements == 1 || stride == compact;
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
    return Extent{static_cast<const std::byte*>(tensor.data) + tensor.byte_offset + low, static_cast<size_t>(bytes),
                  in_order};
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
    GPURUN_ASSERT(remote.size() == allocations_.size());
    const Head head{remote.size(), tensors_.size(), dimensions_.size(), names_.size(), metadata_.size()};
    const std::span<const std::byte> parts[] = {
        std::as_bytes(std::span(&head, 1)), std::as_bytes(remote),
        std::as_bytes(std::span(tensors_)), std::as_bytes(std::span(dimensions_)),
        std::as_bytes(std::span(names_)),   std::as_bytes(std::span(metadata_))};
    size_t bytes = 0;
    for (const auto& part : parts)
        bytes += part.size();
    std::vector<std::byte> packed(bytes);
    auto at = packed.begin();
    for (const auto& part : parts)
        at = std::copy(part.begin(), part.end(), at);
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

const std::byte* BorrowedTensors::base_of_copy(const std::byte* copy) const {
    const TensorList::Head sizes = head();
    GPURUN_ASSERT(sizes.tensors == 1 && sizes.allocations == 1);
    TensorList::Tensor entry;
    std::memcpy(&entry, packed_.data() + sizeof sizes + sizes.allocations * sizeof(RemoteBuffer), sizeof entry);
    return copy - entry.offset;
}

void BorrowedTensors::unpack(std::span<const std::byte* const> bases, const DLDevice& device, bool are_copies) {
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
            tensor.device.device_id = device.device_id;
        if (are_copies)
            tensor.device = device;
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
