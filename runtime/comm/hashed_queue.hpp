// A queue of elements with keys: the oldest one of a key is found at once, however many others there are.
//
// Elements are linked through themselves, each in one bucket, so adding and removing allocates nothing, except when the
// queue becomes longer than ever before. Owns nothing.
#pragma once

#include "base/list.hpp"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

namespace gpurun::comm {

// The base of an element of a HashedQueue: its key and its bucket, as long as it is in the queue.
template <typename T, typename Tag>
struct Hashed : base::Linked<T, Tag> {
    uint64_t hashed_key = 0;
    base::List<T, Tag>* hashed_bucket = nullptr;
};

template <typename T, typename Tag>
class HashedQueue {
  public:
    HashedQueue() { resize(kFewestBuckets); }

    bool empty() const { return size_ == 0; }
    size_t size() const { return size_; }
    static bool has(const T& element) { return Bucket::has(element); }
    void push_back(T& element, uint64_t key) {
        if (size_ == buckets_.size()) [[unlikely]]
            grow();
        put(element, key);
        ++size_;
    }
    // REQUIRES has(element).
    void remove(T& element) {
        links(element).hashed_bucket->remove(element);
        --size_;
    }
    // The oldest of those with the key for which `fits`, or null.
    template <typename Fits>
    T* find(uint64_t key, const Fits& fits) const {
        if (size_ == 0)
            return nullptr;
        return bucket(key).find([&](const T& each) { return links(each).hashed_key == key && fits(each); });
    }
    // At how many elements find() looks at most. Looks at all.
    size_t most_looks() const {
        size_t most = 0;
        for (const Bucket& each : buckets_)
            most = std::max(most, each.size());
        return most;
    }
    // In no order; `visit` may remove the element that it is given.
    template <typename Visit>
    void for_each(const Visit& visit) const {
        for (Bucket& each : buckets_)
            each.for_each(visit);
    }

  private:
    using Bucket = base::List<T, Tag>;
    static constexpr size_t kFewestBuckets = 64;

    static Hashed<T, Tag>& links(T& element) { return element; }
    static const Hashed<T, Tag>& links(const T& element) { return element; }
    // Fibonacci hashing: the upper bits are mixed best.
    Bucket& bucket(uint64_t key) const { return buckets_[(key * 0x9e3779b97f4a7c15) >> shift_]; }
    void put(T& element, uint64_t key) {
        links(element).hashed_key = key;
        links(element).hashed_bucket = &bucket(key);
        links(element).hashed_bucket->push_back(element);
    }
    void resize(size_t buckets) {
        buckets_ = std::vector<Bucket>(buckets);
        for (shift_ = 64; buckets > 1; buckets /= 2)
            --shift_;
    }
    // The order within a key stays.
    [[gnu::noinline]] void grow() {
        std::vector<Bucket> old = std::move(buckets_);
        resize(2 * old.size());
        for (Bucket& each : old)
            while (T* const element = each.front()) {
                each.remove(*element);
                put(*element, links(*element).hashed_key);
            }
    }

    mutable std::vector<Bucket> buckets_; // a power of two
    int shift_ = 64;
    size_t size_ = 0;
};

} // namespace gpurun::comm
