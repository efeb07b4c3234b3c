#include "transfer/pool/host_copies.hpp"

#include <cstring>

namespace gpurun::transfer {

HostCopies::Copy* HostCopies::take() {
    const std::lock_guard lock(mutex_);
    if (idle_.empty()) {
        idle_.reserve(all_.size() + 1);
        idle_.push_back(&all_.emplace_back());
    }
    Copy* const copy = idle_.back();
    idle_.pop_back();
    return copy;
}

void HostCopies::give_back(Copy* copy) {
    const std::lock_guard lock(mutex_);
    idle_.push_back(copy);
}

base::Result<void> HostCopies::enqueue(device::Stream stream, void* destination, const void* source, size_t bytes) {
    Copy* const copy = take();
    *copy = Copy{destination, source, bytes, this};
    auto enqueued = device_.call_host(stream, run, copy);
    if (!enqueued)
        give_back(copy);
    return enqueued;
}

void HostCopies::run(void* argument) {
    auto* const copy = static_cast<Copy*>(argument);
    std::memcpy(copy->destination, copy->source, copy->bytes);
    copy->home->give_back(copy);
}

} // namespace gpurun::transfer
