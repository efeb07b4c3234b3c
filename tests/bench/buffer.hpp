// Memory of one kind, in slots: messages that are in flight at once have a slot each.
#pragma once

#include "options.hpp"

#include <cstddef>

namespace gpurun::bench {

class Buffer {
  public:
    // Ends the job, and says what to do, if there is not that much memory.
    Buffer(Memory memory, size_t bytes);
    ~Buffer();
    Buffer(const Buffer&) = delete;
    Buffer& operator=(const Buffer&) = delete;

    // Slot `index` of slots of `bytes` each.
    void* slot(int index, size_t bytes) const {
        return static_cast<unsigned char*>(data_) + static_cast<size_t>(index) * bytes;
    }

  private:
    Memory memory_;
    void* data_ = nullptr;
};

} // namespace gpurun::bench
