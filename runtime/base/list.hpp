// A doubly linked list through its elements. No allocation, removal from anywhere in constant time.
//
// An element derives from one Linked<T, Tag> for each list that it can be in at the same time; the tag says which. The
// list owns nothing: an element must leave it before it goes.
#pragma once

#include "base/check.hpp"

#include <cstddef>

namespace gpurun::base {

template <typename T, typename Tag>
class List;

template <typename T, typename Tag>
class Linked {
    friend class List<T, Tag>;
    T* previous_ = nullptr;
    T* next_ = nullptr;
    bool linked_ = false;
};

template <typename T, typename Tag>
class List {
  public:
    List() = default;
    List(const List&) = delete;
    List& operator=(const List&) = delete;

    bool empty() const { return first_ == nullptr; }
    size_t size() const { return size_; }
    T* front() const { return first_; }
    static T* next(const T& element) { return links(element).next_; }
    static bool has(const T& element) { return links(element).linked_; }

    void push_back(T& element) {
        Node& node = links(element);
        GPURUN_ASSERT(!node.linked_);
        node.previous_ = last_;
        node.next_ = nullptr;
        node.linked_ = true;
        (last_ != nullptr ? links(*last_).next_ : first_) = &element;
        last_ = &element;
        ++size_;
    }

    // Nothing if it is in no list.
    void remove(T& element) {
        Node& node = links(element);
        if (!node.linked_)
            return;
        (node.previous_ != nullptr ? links(*node.previous_).next_ : first_) = node.next_;
        (node.next_ != nullptr ? links(*node.next_).previous_ : last_) = node.previous_;
        node = Node{};
        --size_;
    }

    // `visit` may remove the element that it is given, and no other.
    template <typename Visit>
    void for_each(const Visit& visit) {
        for (T* element = first_; element != nullptr;) {
            T* following = links(*element).next_;
            visit(*element);
            element = following;
        }
    }

    template <typename Visit>
    void for_each(const Visit& visit) const {
        for (const T* element = first_; element != nullptr; element = links(*element).next_)
            visit(*element);
    }

    // The first for which `fits`, or null.
    template <typename Fits>
    T* find(const Fits& fits) const {
        T* element = first_;
        while (element != nullptr && !fits(*element))
            element = links(*element).next_;
        return element;
    }

  private:
    using Node = Linked<T, Tag>;
    static Node& links(T& element) { return element; }
    static const Node& links(const T& element) { return element; }

    T* first_ = nullptr;
    T* last_ = nullptr;
    size_t size_ = 0;
};

} // namespace gpurun::base
