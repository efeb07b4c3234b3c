// A buffer in parts, one for each rank.
#pragma once

#include "comm/schedule.hpp"

#include <algorithm>
#include <cstdint>

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
        return segment_of(listed_.empty() ? whole_.part(index * distance_, bytes_)
                                          : whole_.part(listed_[index].offset, listed_[index].bytes));
    }
    // Of the parts of so many ranks.
    size_t longest(int ranks) const {
        size_t bytes = 0;
        for (int rank = 0; rank < ranks; ++rank)
            bytes = std::max(bytes, (*this)[rank].bytes);
        return bytes;
    }
    // Of each part, up to `bytes` from `begin` on.
    Parts segments(size_t begin, size_t bytes) const {
        Parts of = *this;
        of.begin_ = begin;
        of.most_ = bytes;
        return of;
    }
    static Schedule::Buffer segment_of(const Schedule::Buffer& part, size_t begin, size_t bytes) {
        return begin < part.bytes ? part.part(begin, std::min(bytes, part.bytes - begin)) : part.part(0, 0);
    }

  private:
    Parts(const Schedule::Buffer& whole, size_t distance, size_t bytes, std::vector<Part> listed)
        : whole_(whole), distance_(distance), bytes_(bytes), listed_(std::move(listed)) {}

    Schedule::Buffer segment_of(const Schedule::Buffer& part) const { return segment_of(part, begin_, most_); }

    Schedule::Buffer whole_;
    size_t distance_;
    size_t bytes_;
    std::vector<Part> listed_;
    size_t begin_ = 0; // of a segment of each
    size_t most_ = SIZE_MAX;
};

// Those among whom something is done: all ranks of the communicator, or some. Each has a number there.
class Among {
  public:
    explicit Among(const Communicator& comm) : Among(0, comm.size(), comm.rank().value) {}
    // `size` ranks in a row, of which this one is number `self`.
    Among(int first, int size, int self) : first_(first), size_(size), self_(self) {}
    // The rank of each node that is number `place` of its.
    static Among across(const NodeLayout& nodes, int place, int own_node) {
        Among among(place, nodes.count(), own_node);
        among.nodes_ = &nodes;
        return among;
    }

    int size() const { return size_; }
    int self() const { return self_; }
    Rank rank(int number) const { return Rank{first_ + (nodes_ != nullptr ? nodes_->first(number) : number)}; }
    // The others: to whom this one sends, one after another; who sends to it in the same order.
    int others() const { return size_ - 1; }
    int after(int i) const { return (self_ + 1 + i) % size_; }
    int before(int i) const { return (self_ - 1 - i + size_) % size_; }

  private:
    int first_;
    int size_;
    int self_;
    const NodeLayout* nodes_ = nullptr;
};

// The other ranks, beginning behind this one, so that not all of them begin with the same.
class Others {
  public:
    explicit Others(const Communicator& comm) : Others(Among(comm)) {}
    explicit Others(const Among& among) : among_(among) {}

    int count() const { return among_.others(); }
    Rank after(int i) const { return among_.rank(among_.after(i)); }   // whom this one sends to, one after another
    Rank before(int i) const { return among_.rank(among_.before(i)); } // who sends to it in the same order

  private:
    Among among_;
};

} // namespace gpurun::comm
