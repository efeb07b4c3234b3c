// Loans: what this rank has borrowed, from the call that borrows until it is given back. What it has lent are requests
// (comm/requests.hpp), since a loan ends for its lender as a message does. Takes the engine lock.
#pragma once

#include "comm/messages.hpp"
#include "comm/requests.hpp"
#include "transfer/protocol/loan_part.hpp"

#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <string>

namespace gpurun::comm {

class Loans {
  public:
    Loans(Core& core, Waiter& waiter, Alarms& alarms, Messages& messages, Requests& requests, PeerFailure& failure,
          Background& background)
        : core_(core), waiter_(waiter), alarms_(alarms), messages_(messages), requests_(requests), failure_(failure),
          background_(background) {}

    struct Borrowed {
        std::byte* address = nullptr;
        size_t bytes = 0;
        transfer::LoanKind kind{};
        const BorrowedTensors* tensors = nullptr; // null: one buffer; there as long as the loan is
    };
    // Starts a loan, and returns the name of its request. kLoan: the memory is lent, and not shared.
    base::Result<uint64_t> lend(const Task& task, std::unique_ptr<LoanDescription> description = nullptr);
    // Waits for a message that fits, and borrows what it lends, in the order domain of `order`. Returns the loan's
    // name. kLoan: the message is no loan. That, and memory that cannot be mapped here, leave the message to be
    // received.
    base::Result<uint64_t> borrow(const Pattern& pattern, const transfer::Operand& order, platform::TraceEvent* call,
                                  Arrived& ret_from);
    base::Result<Borrowed> find(uint64_t name);
    // kPeerLost, once it has been given back, if its lender has died.
    base::Result<void> give_back(uint64_t name, const Order& order);

    // ---- for calls that use memory
    // What the bytes are, if they are borrowed. kBuffer: they are borrowed read-only, and the call writes; kLoan: they
    // are lent exclusively.
    base::Result<std::optional<device::Buffer>> look_up(const void* address, size_t bytes, bool writes);
    // kLoan if some of the bytes are lent.
    base::Result<void> check_not_lent(const void* address, size_t bytes);

    // Those that are open, with bytes, holder and age, and what is mapped: a line each.
    std::string report();
    // The rank leaves: gives all back once its device has come to rest.
    void give_back_all(EngineLock& lock) GPURUN_REQUIRES(engine_lock);

  private:
    struct Entry {
        uint64_t name = 0;
        bool open = false;
        Borrowed borrowed;
        WorldRank lender{};
        transfer::Taken taken;
        std::vector<transfer::Taken> parts; // the other mappings, of a loan of tensors
        std::vector<Borrowed> spans;        // that calls may use: of the buffer, or of each allocation
        std::unique_ptr<BorrowedTensors> tensors;
        int tag = 0;
        int64_t since_ns = 0;
    };
    // A name: above, how often the entry was used; below, its index, from 1 on.
    static constexpr uint64_t kUse = uint64_t{1} << 32;
    static constexpr uint64_t kIndex = kUse - 1;

    bool waits_to_map(const Unexpected& message) GPURUN_REQUIRES(engine_lock);
    base::Result<const Unexpected*> wait_for_loan(EngineLock& lock, const Pattern& pattern)
        GPURUN_REQUIRES(engine_lock);
    base::Result<void> check_free_for(transfer::LoanKind kind, const void* address, size_t bytes)
        GPURUN_REQUIRES(engine_lock);
    base::Result<void> receive_tensors(EngineLock& lock, Entry& entry, const Group& group) GPURUN_REQUIRES(engine_lock);
    base::Result<Entry*> find_entry(uint64_t name) GPURUN_REQUIRES(engine_lock);
    base::Result<void> end(Entry& entry, std::optional<device::Stream> stream) GPURUN_REQUIRES(engine_lock);
    Entry& add() GPURUN_REQUIRES(engine_lock);
    void remove(Entry& entry) GPURUN_REQUIRES(engine_lock);
    transfer::LoanPart& part(WorldRank lender) GPURUN_REQUIRES(engine_lock) {
        return core_.peer(lender).part<transfer::LoanPart>();
    }

    Core& core_;
    Waiter& waiter_;
    Alarms& alarms_;
    Messages& messages_;
    Requests& requests_;
    PeerFailure& failure_;
    Background& background_;
    std::deque<Entry> entries_; // used again
    std::vector<Entry*> unused_;
    std::multimap<uintptr_t, const Borrowed*> mapped_; // of other processes' memory, by address
    std::atomic<bool> any_mapped_{false};              // relaxed, as LentMemory::any_exclusive()
};

} // namespace gpurun::comm
