// Spans of addresses, which may overlap, and each of which belongs to something. Finds one that overlaps given bytes,
// or has all of them, without a walk: a tree by address in which each node knows the span of its subtree that reaches
// furthest, and which random weights keep flat. Adding, removing and finding take logarithmic time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <tuple>
#include <utility>

namespace gpurun::comm {

template <typename Owner>
class SpanSet {
  public:
    struct Span {
        uintptr_t first;
        uintptr_t end; // behind its last byte
        const Owner* owner;
    };

    bool empty() const { return root_ == nullptr; }
    // REQUIRES that the owner has no span with this first byte yet.
    void add(const void* address, size_t bytes, const Owner& owner) {
        const auto first = reinterpret_cast<uintptr_t>(address);
        auto node = std::make_unique<Node>(Span{first, first + bytes, &owner}, next_weight());
        auto [less, rest] = split(std::move(root_), [&](const Span& each) { return is_before(each, node->span); });
        root_ = merge(merge(std::move(less), std::move(node)), std::move(rest));
    }
    // Does nothing if it is not there.
    void remove(const void* address, const Owner& owner) {
        const Span removed{reinterpret_cast<uintptr_t>(address), 0, &owner};
        auto [less, rest] = split(std::move(root_), [&](const Span& each) { return is_before(each, removed); });
        auto [found, more] = split(std::move(rest), [&](const Span& each) { return !is_before(removed, each); });
        root_ = merge(std::move(less), std::move(more));
    }
    // Of those that begin before `end`, the one that reaches furthest; null if none does. If any has bytes from an
    // address below `end` on, it has.
    const Span* furthest(uintptr_t end) const {
        const Span* best = nullptr;
        for (const Node* node = root_.get(); node != nullptr;) {
            if (node->span.first >= end) {
                node = node->left.get();
                continue;
            }
            best = further(best, &node->span);
            if (node->left)
                best = further(best, node->left->furthest);
            node = node->right.get();
        }
        return best;
    }
    // Some owner of some of these bytes; null if there is none.
    const Owner* find(const void* address, size_t bytes) const {
        const auto first = reinterpret_cast<uintptr_t>(address);
        const Span* const span = furthest(first + bytes);
        return span != nullptr && span->end > first ? span->owner : nullptr;
    }
    // Calls with each owner, by address.
    template <typename Call>
    void for_each(const Call& call) const {
        visit(root_.get(), call);
    }

  private:
    struct Node {
        Span span;
        uint64_t weight; // that of no node above is smaller
        const Span* furthest = &span;
        std::unique_ptr<Node> left{}, right{};

        Node(Span span_, uint64_t weight_) : span(span_), weight(weight_) {}
        void note_furthest() {
            furthest = &span;
            for (const auto* child : {left.get(), right.get()})
                if (child != nullptr)
                    furthest = further(furthest, child->furthest);
        }
    };
    using Tree = std::unique_ptr<Node>;

    static bool is_before(const Span& one, const Span& other) {
        return std::tuple(one.first, reinterpret_cast<uintptr_t>(one.owner)) <
               std::tuple(other.first, reinterpret_cast<uintptr_t>(other.owner));
    }
    static const Span* further(const Span* one, const Span* other) {
        return one != nullptr && one->end >= other->end ? one : other;
    }
    // Those of which `goes_left` is true, which are in front, and the others.
    template <typename GoesLeft>
    static std::pair<Tree, Tree> split(Tree tree, const GoesLeft& goes_left) {
        if (!tree)
            return {};
        Tree& inner = goes_left(tree->span) ? tree->right : tree->left;
        auto [less, rest] = split(std::move(inner), goes_left);
        const bool stays_left = &inner == &tree->right;
        inner = std::move(stays_left ? less : rest);
        tree->note_furthest();
        if (stays_left)
            return {std::move(tree), std::move(rest)};
        return {std::move(less), std::move(tree)};
    }
    // REQUIRES that all of `less` are in front of all of `more`.
    static Tree merge(Tree less, Tree more) {
        if (!less || !more)
            return less ? std::move(less) : std::move(more);
        if (less->weight >= more->weight) {
            less->right = merge(std::move(less->right), std::move(more));
            less->note_furthest();
            return less;
        }
        more->left = merge(std::move(less), std::move(more->left));
        more->note_furthest();
        return more;
    }
    template <typename Call>
    static void visit(const Node* node, const Call& call) {
        if (node == nullptr)
            return;
        visit(node->left.get(), call);
        call(*node->span.owner);
        visit(node->right.get(), call);
    }
    uint64_t next_weight() { // xorshift
        state_ ^= state_ << 13;
        state_ ^= state_ >> 7;
        state_ ^= state_ << 17;
        return state_;
    }

    Tree root_;
    uint64_t state_ = 0x9e3779b97f4a7c15;
};

} // namespace gpurun::comm
