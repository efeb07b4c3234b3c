// The registration cache, export side: the handles of this process's own allocations, and which peers have them. Memory
// that looks exportable and that the device refuses (imported memory, for example) goes without a handle.
//
// At most kLimit whole allocations; beyond that they are forgotten. An allocation that it has forgotten is exported
// again; peers that have it mapped learn that it was freed when another allocation overlaps it. A peer that is asked to
// unmap one has it until it answers, unless it has been given the handle again since. What is in pieces
// (device::Buffer) may overlap, and is not forgotten before others replace it and no peer has it: whoever unmaps a
// piece asks for all that has it. Used under the engine lock.
#pragma once

#include "base/log.hpp"
#include "device/device.hpp"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

namespace gpurun::transfer {

class ExportCache {
  public:
    static constexpr size_t kLimit = 4096;

    ExportCache(device::Device& device, size_t peers) : device_(device), peers_(peers) {}

    // REQUIRES buffer.exportable. Notes that `peer` has it from now on. Nothing if the device refuses.
    std::optional<device::MemoryHandle> handle(const device::Buffer& buffer, size_t peer) {
        auto found = exports_.find(buffer.id);
        if (found == exports_.end()) {
            auto exported = device_.export_memory(buffer);
            if (!exported)
                base::log(base::LogLevel::kWarn, "memory cannot be exported ({}): its messages bounce",
                          exported.error().detail);
            if (!exported && exported.error().status == base::Status::kSystem)
                return std::nullopt; // this process has no descriptors or threads left, for now
            if (exports_.size() - spans_ >= kLimit && !buffer.in_pieces) {
                std::erase_if(exports_, [](const auto& each) { return !each.second.in_pieces; });
                has_forgotten_ = true;
            }
            if (buffer.in_pieces)
                forget_replaced(buffer);
            spans_ += buffer.in_pieces ? 1 : 0;
            found =
                exports_
                    .emplace(buffer.id, Export{.base = buffer.base, .size = buffer.size, .in_pieces = buffer.in_pieces})
                    .first;
            if (exported) {
                const bool may_be_known = has_forgotten_ && !buffer.in_pieces;
                found->second.handle = *exported;
                found->second.holders.assign(peers_, may_be_known ? kGiven : kNone);
            }
        }
        if (found->second.handle)
            found->second.holders[peer] = kGiven;
        return found->second.handle;
    }

    // The allocation is about to be freed: forgets it and returns who has been given its handle, by peer (empty if
    // nobody).
    std::vector<bool> forget(uint64_t id) {
        const auto found = exports_.find(id);
        if (found == exports_.end())
            return {};
        std::vector<bool> given;
        for (const uint64_t each : found->second.holders)
            given.push_back(each != kNone);
        spans_ -= found->second.in_pieces ? 1 : 0;
        exports_.erase(found);
        return given;
    }

    // ---- for an allocation that peers are asked to unmap
    // It, or all that has some of these pieces.
    std::vector<uint64_t> ids_of(const device::Buffer& buffer) const {
        std::vector<uint64_t> ids;
        if (!buffer.in_pieces)
            ids.push_back(buffer.id);
        else
            for (const auto& [id, each] : exports_)
                if (each.overlaps(buffer))
                    ids.push_back(id);
        return ids;
    }
    // Whether the peer may have it mapped, as far as it has told.
    bool may_have(uint64_t id, size_t peer) const { return holder(id, peer) != kNone; }
    bool must_be_asked(uint64_t id, size_t peer) const { return holder(id, peer) == kGiven; }
    // REQUIRES that it must be asked. Returns the number of the question.
    uint64_t ask(uint64_t id, size_t peer) { return exports_.find(id)->second.holders[peer] = ++last_question_; }
    // The peer had unmapped it when it read this question.
    void answered(uint64_t id, size_t peer, uint64_t question) {
        if (holder(id, peer) == question)
            exports_.find(id)->second.holders[peer] = kNone;
    }
    // Somebody to whom it is lent lends it on: any peer may have it from now on.
    void note_lent_on(uint64_t id) {
        if (const auto found = exports_.find(id); found != exports_.end())
            std::fill(found->second.holders.begin(), found->second.holders.end(), kGiven);
    }
    // Whether it may be an allocation that the cache has forgotten. Then handle() knows it again, and takes it that all
    // peers have it.
    bool may_have_forgotten(const device::Buffer& buffer) const {
        return has_forgotten_ && !buffer.in_pieces && exports_.count(buffer.id) == 0;
    }

  private:
    static constexpr uint64_t kNone = 0;  // the peer does not have it
    static constexpr uint64_t kGiven = 1; // it has been given the handle; above: and then asked this question

    struct Export {
        std::optional<device::MemoryHandle> handle;
        std::vector<uint64_t> holders; // by peer; empty without a handle
        void* base = nullptr;
        size_t size = 0;
        bool in_pieces = false;

        bool is_free() const {
            return std::all_of(holders.begin(), holders.end(), [](uint64_t each) { return each == kNone; });
        }
        bool overlaps(const device::Buffer& buffer) const {
            const auto begin = reinterpret_cast<uintptr_t>(base), other = reinterpret_cast<uintptr_t>(buffer.base);
            return in_pieces && begin < other + buffer.size && other < begin + size;
        }
    };
    // Of other spans, those that had pieces where others are now, and that nobody has.
    void forget_replaced(const device::Buffer& buffer) {
        spans_ -= std::erase_if(exports_, [&](const auto& each) {
            const auto& [id, other] = each;
            if (!other.overlaps(buffer) || !other.is_free())
                return false;
            auto there = device_.describe(other.base, other.size);
            return !there || there->id != id;
        });
    }
    uint64_t holder(uint64_t id, size_t peer) const {
        const auto found = exports_.find(id);
        return found == exports_.end() || found->second.holders.empty() ? kNone : found->second.holders[peer];
    }

    device::Device& device_;
    size_t peers_;
    std::unordered_map<uint64_t, Export> exports_;
    size_t spans_ = 0; // of them, in pieces
    uint64_t last_question_ = kGiven;
    bool has_forgotten_ = false;
};

} // namespace gpurun::transfer
