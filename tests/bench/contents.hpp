// Puts messages, and what is to be summed, into memory of any kind, and checks there what has come, byte by byte. Never
// inside of what is timed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace gpurun::bench {

inline constexpr int kStale = 0xee; // what lies in a buffer before anything has arrived

class Contents {
  public:
    explicit Contents(int rank);

    // Message `number` of rank `sender`.
    void write(void* buffer, size_t bytes, int sender, uint64_t number);
    // Ends the job, and says which byte is wrong, if the buffer holds anything else.
    void check(const void* buffer, size_t bytes, int sender, uint64_t number);

    // The floats of rank `rank` of which sum `number` is made.
    void write_terms(void* buffer, size_t bytes, int rank, uint64_t number);
    // As check(), for what lies `offset` bytes behind the beginning of sum `number` of so many ranks.
    void check_sums(const void* buffer, size_t bytes, size_t offset, int ranks, uint64_t number);

  private:
    // Makes the bytes at `offset` of what a buffer is to hold.
    using Make = std::function<void(std::span<unsigned char> piece, size_t offset)>;
    void write_made(void* buffer, size_t bytes, const Make& make);
    void check_made(const void* buffer, size_t bytes, const std::string& what, const Make& make);
    void make_sums(std::span<unsigned char> piece, size_t offset, int first_rank, int end_rank, uint64_t number);

    int rank_;
    std::vector<unsigned char> expected_;
    std::vector<unsigned char> read_;
    std::vector<float> sums_;
};

} // namespace gpurun::bench
