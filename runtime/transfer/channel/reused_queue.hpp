// A queue that keeps its memory: once it has been as long as it gets, nothing is allocated. What is in it is
// contiguous.
#pragma once

#include <cstddef>
#include <span>
#include <type_traits>
#include <vector>

namespace gpurun::transfer {

template <typename T>
class ReusedQueue {
    static_assert(std::is_trivially_copyable_v<T>);

  public:
    bool empty() const { return first_ == all_.size(); }
    // Valid until the next append().
    std::span<const T> content() const { return std::span<const T>(all_).subspan(first_); }
    T& front() { return all_[first_]; }

    void append(std::span<const T> more) { all_.insert(all_.end(), more.begin(), more.end()); }
    void append(const T& one) { all_.push_back(one); }
    // REQUIRES that there are so many.
    void drop(size_t count) {
        first_ += count;
        if (first_ * 2 < all_.size())
            return;
        all_.erase(all_.begin(),
                   all_.begin() + static_cast<ptrdiff_t>(first_)); // each is moved once at most, on average
        first_ = 0;
    }
    void clear() { drop(all_.size() - first_); }

  private:
    std::vector<T> all_;
    size_t first_ = 0; // those before are dropped
};

} // namespace gpurun::transfer
