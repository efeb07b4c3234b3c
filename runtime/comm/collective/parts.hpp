// A buffer in parts, one for each rank.
#pragma once

#include "comm/schedule.hpp"

namespace gpurun::comm {

class Parts {
  public:
    struct Part {
        size_t offset;
        size_t bytes;
    };

    // Behind each other, and of the same length, up to `ranks`.
    static Parts equal(const Schedule::Buffer& whole, size_t bytes) { return {whole, bytes, bytes, {}}; }
    // The whole, for each of them.
    static Parts same(const Schedule::Buffer& whole) { return {whole, 0, whole.bytes, {}}; }
    static Parts listed(const Schedule::Buffer& whole, std::vector<Part> parts) {
        return {whole, 0, 0, std::move(parts)};
    }

    Schedule::Buffer operator[](int rank) const {
        const auto index = static_cast<size_t>(rank);
        return listed_.empty() ? whole_.part(index * distance_, bytes_)
                               : whole_.part(listed_[index].offset, listed_[index].bytes);
    }

  private:
    Parts(const Schedule::Buffer& whole, size_t distance, size_t bytes, std::vector<Part> listed)
        : whole_(whole), distance_(distance), bytes_(bytes), listed_(std::move(listed)) {}

    Schedule::Buffer whole_;
    size_t distance_;
    size_t bytes_;
    std::vector<Part> listed_;
};

// The other ranks, beginning behind this one, so that not all of them begin with the same.
class Others {
  public:
    explicit Others(const Communicator& comm) : size_(comm.size()), self_(comm.rank().value) {}

    int count() const { return size_ - 1; }
    Rank after(int i) const { return Rank{(self_ + 1 + i) % size_}; } // whom this one sends to, one after another
    Rank before(int i) const { return Rank{(self_ - 1 - i + size_) % size_}; } // who sends to it in the same order

  private:
    int size_;
    int self_;
};

} // namespace gpurun::comm
