// A list of mostly few elements: up to `most_here` of them take no memory from the heap.
#pragma once

#include <cstddef>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>
#include <vector>

namespace gpurun::base {

template <typename T, size_t most_here>
class Few {
    static_assert(std::is_trivially_copyable_v<T> && std::is_trivially_destructible_v<T>);

  public:
    Few() = default;
    explicit Few(size_t size) {
        if (size > most_here)
            more_.resize(size);
        else
            std::uninitialized_value_construct_n(here(), size);
        size_ = size;
    }
    Few(const Few&) = delete;
    Few& operator=(const Few&) = delete;
    // Of what a function returns.
    Few(Few&& other) noexcept : size_(other.size_), more_(std::move(other.more_)) {
        if (size_ <= most_here)
            std::uninitialized_copy_n(other.here(), size_, here());
    }
    Few& operator=(Few&&) = delete;

    void push_back(const T& element) {
        if (size_ == most_here)
            more_.assign(begin(), end());
        if (size_ >= most_here)
            more_.push_back(element);
        else
            ::new (here() + size_) T(element);
        ++size_;
    }

    size_t size() const { return size_; }
    bool empty() const { return size_ == 0; }
    T* begin() { return size_ <= most_here ? here() : more_.data(); }
    T* end() { return begin() + size_; }
    const T* begin() const { return size_ <= most_here ? here() : more_.data(); }
    const T* end() const { return begin() + size_; }
    T& operator[](size_t index) { return begin()[index]; }
    const T& operator[](size_t index) const { return begin()[index]; }
    T& back() { return end()[-1]; }

  private:
    T* here() { return std::launder(reinterpret_cast<T*>(room_)); }
    const T* here() const { return std::launder(reinterpret_cast<const T*>(room_)); }

    size_t size_ = 0;
    alignas(T) std::byte room_[most_here * sizeof(T)]; // the elements, unless there are more
    std::vector<T> more_;
};

} // namespace gpurun::base
