// The registration cache, import side: the mappings of one peer's allocations in this process.
//
// Opening costs 0.1 ms, or 10 ms from 1 GiB on, so mappings are kept: found again by the allocation's id, never by its
// address, which may since name another allocation. At most kLimit beside those of open loans and of graphs; the least
// recently used goes first. A mapping is closed when the exporter frees the allocation and says so (revoke), or dies,
// when a new allocation overlaps its address, so that it must have been freed, or at the end. What is in pieces
// (device::Buffer) may overlap: the device tells which is stale. Closing waits until the last copy from it is done, and
// until the device may be waited for. A graph holds its mapping until it is gone, or until an overlap shows that it
// cannot run again. Used under the engine lock.
#pragma once

#include "transfer/fence/completion_point.hpp"
#include "transfer/memory/quiescence.hpp"
#include "transfer/memory/remote_buffer.hpp"

#include <cstdint>
#include <list>
#include <map>
#include <optional>
#include <unordered_map>
#include <vector>

namespace gpurun::transfer {

class ImportCache {
  public:
    static constexpr size_t kLimit = 256;

    // `fence` is that of messages from the peer: its backward edges say which copies are done.
    ImportCache(device::Device& device, Fence& fence, int peer, const TryQuiescence& quiescence)
        : device_(device), fence_(fence), peer_(peer), quiescence_(quiescence) {}
    ~ImportCache();

    // Whether `source` can be mapped: no mapping that overlaps it has to stay open for now.
    bool can_open(const RemoteBuffer& source);
    // What is in the way goes by itself: it is no open loan.
    bool can_open_later(const RemoteBuffer& source) const;
    // Maps the allocation of `source`'s message, unless it is mapped. REQUIRES source.exportable().
    base::Result<void> open(const RemoteBuffer& source);
    // Where `source`'s message lies here; the copy from it will signal the slot's backward edge.
    // REQUIRES source.exportable().
    base::Result<const std::byte*> address(const RemoteBuffer& source, const Slot& slot);
    // The same for a graph, which may read it at any time until release().
    base::Result<const std::byte*> hold(const RemoteBuffer& source);
    void release(uint64_t allocation_id);
    // The same for a loan, which keeps the mapping whatever happens, until it is given back. What the borrower's stream
    // does with it is over once `end` has come.
    base::Result<const std::byte*> borrow(const RemoteBuffer& source);
    void give_back(uint64_t allocation_id, const std::optional<CompletionPoint>& end);
    // The exporter frees the allocation.
    void revoke(uint64_t allocation_id);
    // The exporter has died: the same for all, also for what messages of it still map.
    void revoke_all();
    // Closes what was revoked and is no longer read, and what is kept beyond kLimit: some of it in one call. Whether
    // there was any. Cheap when there is nothing.
    base::Result<bool> sweep();
    bool has_to_close() const { return revoked_ != 0 || idle_.size() > kLimit; }
    base::Result<void> close_all();
    bool has(uint64_t allocation_id) const { return by_id_.count(allocation_id) != 0; }
    // Whether streams may still use it, loans that are open aside.
    bool in_use_by_streams(uint64_t allocation_id) const;
    size_t size() const { return by_id_.size(); }
    uint64_t bytes() const { return bytes_; }

  private:
    static constexpr size_t kMostAtOnce = 64; // mappings that one call looks at to close them

    struct Mapping;
    using Mappings = std::list<Mapping>;
    struct Mapping {
        uint64_t id;
        uint64_t exporter_base;
        uint64_t bytes;
        void* base;
        Mappings* in;                      // the list that it is in
        std::vector<CompletionPoint> uses; // of it; those that are over are dropped with the next one
        bool in_pieces = false;
        bool revoked = false;
        uint32_t holders = 0;   // graphs
        uint32_t borrowers = 0; // loans
    };
    using Iterator = Mappings::iterator;

    bool is_over(const CompletionPoint& use) const;
    bool is_used(const Mapping& mapping) const { return mapping.borrowers != 0 || !are_uses_over(mapping); }
    bool are_uses_over(const Mapping& mapping) const;
    void add_use(Mapping& mapping, const CompletionPoint& use);
    void place(Iterator mapping);
    base::Result<void> close(Iterator mapping);
    base::Result<bool> close_idle(size_t kept);
    base::Result<bool> close_leaving();
    template <typename Visit>
    void for_each_overlapping(const RemoteBuffer& source, const Visit& visit) const;
    base::Result<void> close_overlapping(const RemoteBuffer& source);
    base::Result<Iterator> find(const RemoteBuffer& source);
    void revoke(Iterator mapping);
    void revoke_stale();

    device::Device& device_;
    Fence& fence_;
    int peer_;
    const TryQuiescence& quiescence_;
    size_t revoked_ = 0; // also of those in use
    bool revokes_all_ = false;
    uint64_t bytes_ = 0;
    Mappings in_use_;  // by graphs and loans
    Mappings idle_;    // for later messages; most recently used first
    Mappings leaving_; // revoked ones that are not in use: closed once their last copies are done
    std::unordered_map<uint64_t, Iterator> by_id_;
    std::map<uint64_t, Iterator> by_address_; // the exporter's; none overlap. Without those that are in pieces
};

} // namespace gpurun::transfer
