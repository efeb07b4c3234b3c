// Shared memory without a name: memfd segments, so that nothing is left behind whatever ends the processes.
//
// Segments are sparse: a page costs memory once it is touched. A descriptor reaches other processes by
// MessageSocket.
#pragma once

#include "base/status.hpp"
#include "platform/unique_fd.hpp"

#include <cstddef>

namespace gpurun::platform {

// Owns one mapping of a part of a segment.
class Mapping {
  public:
    Mapping() = default;
    Mapping(Mapping&& other) noexcept;
    Mapping& operator=(Mapping&& other) noexcept;
    ~Mapping();

    // `offset` and `size` are multiples of the page size (page_size()).
    static base::Result<Mapping> map(int fd, size_t offset, size_t size);
    // Memory of this process alone, zeroed.
    static base::Result<Mapping> map_own(size_t size);

    std::byte* data() const { return data_; }
    size_t size() const { return size_; }
    void release() { data_ = nullptr, size_ = 0; } // it stays mapped

  private:
    Mapping(std::byte* data, size_t size) : data_(data), size_(size) {}
    void unmap();

    std::byte* data_ = nullptr;
    size_t size_ = 0;
};

// A new segment of `size` bytes, zeroed; its size is sealed.
base::Result<UniqueFd> create_segment(const char* name, size_t size);
base::Result<size_t> segment_size(int fd);
// Gives the memory of a part of a segment back to the system; it reads as zeros afterwards.
base::Result<void> punch_hole(int fd, size_t offset, size_t size);
// Writes zeros into a mapping of a segment. Many pages are given back to the system for that, and not touched.
void write_zeros(std::byte* begin, size_t bytes);
size_t page_size();
// What the system can give without taking it from anybody, as it guesses; 0 if it does not say.
size_t available_memory();

} // namespace gpurun::platform
