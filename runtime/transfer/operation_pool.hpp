// The memory of requests' operations, which is used again: an operation has about a kilobyte, and most small messages
// need none. Used under the engine lock.
#pragma once

#include <cstddef>
#include <deque>
#include <new>
#include <utility>
#include <vector>

namespace gpurun::transfer {

template <typename Op>
class OperationPool {
  public:
    template <typename... Arguments>
    Op* make(Arguments&&... arguments) {
        if (unused_.empty()) {
            unused_.reserve(all_.size() + 1); // so that destroy() never allocates
            unused_.push_back(&all_.emplace_back());
        }
        Memory* const memory = unused_.back();
        unused_.pop_back();
        return new (memory->bytes) Op(std::forward<Arguments>(arguments)...);
    }
    void destroy(Op* operation) {
        operation->~Op();
        unused_.push_back(reinterpret_cast<Memory*>(operation));
    }

  private:
    struct alignas(Op) Memory {
        std::byte bytes[sizeof(Op)];
    };
    std::deque<Memory> all_;
    std::vector<Memory*> unused_;
};

} // namespace gpurun::transfer
