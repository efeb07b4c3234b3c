// Puts messages into memory of any kind, and checks them there, byte by byte. Never inside of what is timed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace gpurun::bench {

class Contents {
  public:
    explicit Contents(int rank);

    // Message `number` of rank `sender`.
    void write(void* buffer, size_t bytes, int sender, uint64_t number);
    // Ends the job, and says which byte is wrong, if the buffer holds anything else.
    void check(const void* buffer, size_t bytes, int sender, uint64_t number);

  private:
    int rank_;
    std::vector<unsigned char> expected_;
    std::vector<unsigned char> read_;
};

} // namespace gpurun::bench
