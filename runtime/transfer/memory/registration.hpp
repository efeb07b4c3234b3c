// The registration cache of one peer: what this rank tells it of its own buffers, and the peer's allocations that are
// mapped here.
//
// Owned by the peer; used under the engine lock.
#pragma once

#include "transfer/memory/import_cache.hpp"
#include "transfer/memory/reach.hpp"
#include "transfer/operand.hpp"
#include "transfer/resources.hpp"

#include <algorithm>
#include <array>
#include <optional>

namespace gpurun::transfer {

class Registration {
  public:
    Registration(Resources& resources, PeerChannel& channel) : resources_(resources), channel_(channel) {}

    // ---- this rank as source
    // What the target needs to know of a buffer. Exports its allocation if that can be: for a message, what the
    // target's streams copy from; for a loan, host memory too.
    RemoteBuffer describe(const Operand& operand);
    RemoteBuffer describe_lent(const Operand& operand);

    // ---- this rank as target
    // Whether direct copies from the peer's device work. Tried once.
    Reach reach();
    // Whether a message of `bytes` should map its allocation. A large one takes longer to map than a message takes by
    // relay, and many are used once, so it is mapped with its second message.
    bool worth_mapping(const RemoteBuffer& source, uint64_t bytes);
    // Maps the allocation, unless it is mapped. False if that fails, which is remembered, and not tried again.
    bool maps(const RemoteBuffer& source);
    base::Result<ImportCache*> imports(); // opened when it is first needed
    ImportCache* open_imports() { return imports_ ? &*imports_ : nullptr; }
    void revoke(uint64_t allocation_id); // the peer frees it
    void revoke_all();                   // the peer has died
    bool has_to_unmap() const { return imports_ && imports_->has_to_close(); }
    bool has_mapped(uint64_t allocation_id) const { return imports_ && imports_->has(allocation_id); }
    base::Result<bool> sweep() { return imports_ ? imports_->sweep() : base::Result<bool>(false); }
    base::Result<void> close();

  private:
    // Remembers the last few ids.
    class Recent {
      public:
        bool has(uint64_t id) const { return std::find(ids_.begin(), ids_.end(), id) != ids_.end(); }
        void add(uint64_t id) { ids_[next_++ % ids_.size()] = id; }

      private:
        std::array<uint64_t, 16> ids_{};
        size_t next_ = 0;
    };

    Resources& resources_;
    PeerChannel& channel_;
    std::optional<ImportCache> imports_;
    std::optional<Reach> reach_;
    void* probe_ = nullptr; // the peer's, if it is mapped
    Recent used_once_;      // large allocations
    Recent unmappable_;
    int64_t not_asked_until_ns_ = 0; // the peer, for descriptors
};

} // namespace gpurun::transfer
