// Loans: what this rank has borrowed, from the call that borrows until it is given back. What it has lent are requests
// (comm/requests.hpp), since a loan ends for its lender as a message does.
//
// What is borrowed may be lent on. The borrower is a lender then, too, and cannot give the loan back before its own
// loans have come back; so what the first lender's stream does next comes after the last borrower's. All of them map
// the memory from the rank whose it is. Takes the engine lock.
#pragma once

#include "comm/loan_to_all.hpp"
#include "comm/messages.hpp"
#include "comm/names.hpp"
#include "comm/requests.hpp"
#include "comm/span_set.hpp"
#include "transfer/protocol/loan_part.hpp"
#include "transfer/protocol/rendezvous.hpp"

#include <atomic>
#include <deque>
#include <memory>
#include <string>

namespace gpurun::comm {

class Loans {
  public:
    Loans(Core& core, Waiter& waiter, Alarms& alarms, Messages& messages, Requests& requests, PeerFailure& failure,
          OrphanedLoans& orphaned, Background& background);

    struct Borrowed {
        std::byte* address = nullptr;
        size_t bytes = 0;
        transfer::LoanKind kind{};
        device::Placement placement = device::Placement::kDevice;
        const BorrowedTensors* tensors = nullptr; // null: one buffer; there as long as the loan is
        uint64_t loan = 0;                        // its name
        int64_t since_ns = 0;
    };
    // Starts a loan, and returns the name of its request. kLoan: the memory is lent, and not shared; or it is borrowed,
    // in a way that does not allow this.
    base::Result<uint64_t> lend(const Task& task, transfer::Loan what,
                                std::unique_ptr<LoanDescription> description = nullptr);
    // The same to every other rank of the communicator, as one request. kUnsupported, too, if one of them is on another
    // node.
    base::Result<uint64_t> lend_to_all(Task task, transfer::Loan what, const LoanDescription* description = nullptr);
    // Waits for a message that matches, and borrows what it lends, in the order domain of `order`. Returns the loan's
    // name. kLoan: the message is no loan. That, and memory that cannot be mapped here, leave the message to be
    // received.
    base::Result<uint64_t> borrow(const Pattern& pattern, const transfer::Operand& order, platform::TraceEvent* call,
                                  Arrived& ret_from);
    base::Result<Borrowed> find(uint64_t name);
    bool has_borrowed(const void* address, size_t bytes); // all of them, of another rank
    // kPeerLost, once it has been given back, if its lender has died, or the rank whose memory it is. kLoan: it is lent
    // on.
    base::Result<void> give_back(uint64_t name, const Order& order);

    // ---- for calls that use memory
    // What the bytes are, if they are borrowed. kBuffer: they are borrowed read-only, and the call writes; kLoan: they
    // are lent exclusively.
    base::Result<std::optional<device::Buffer>> look_up(const void* address, size_t bytes, bool writes);
    bool has_any() const { return core_.lends() || any_mapped_.load(std::memory_order_relaxed); } // lent or borrowed
    // kLoan if some of the bytes are lent.
    base::Result<void> check_not_lent(const void* address, size_t bytes);

    // Those that this rank has and has not given back: who has lent them, their tag and context.
    template <typename Visit>
    void for_each_borrowed(const Visit& visit) const GPURUN_REQUIRES(engine_lock) {
        for (const Entry& each : entries_)
            if (each.open)
                visit(each.taken.lender->rank(), each.tag, each.context);
    }
    // How often the entry that was used most often was.
    uint32_t most_uses();
    // Those that are open, with bytes, holder and age, and what is mapped: a line each.
    std::string report();
    // The rank leaves: gives all back once its device has come to rest.
    void give_back_all(EngineLock& lock) GPURUN_REQUIRES(engine_lock);

  private:
    struct Entry {
        uint64_t name = 0;
        bool open = false;
        Borrowed borrowed;
        transfer::Borrowing taken;
        std::vector<Borrowed> spans; // that calls may use: of each of its parts
        std::unique_ptr<BorrowedTensors> tensors;
        transfer::ScratchPool::Block* copy = nullptr; // of a loan that could not be mapped
        int tag = 0;
        uint32_t context = 0;
    };
    static constexpr uint16_t kMostLentOn = 1000; // times

    base::Result<void> wait_to_map(EngineLock& lock, transfer::Peer& owner, const transfer::RemoteBuffer& lent,
                                   const Pattern& pattern) GPURUN_REQUIRES(engine_lock);
    bool waits_to_map(const Unexpected& message) GPURUN_REQUIRES(engine_lock);
    // Whose memory it is, which `lender` lends.
    transfer::Peer& owner_of(transfer::Peer& lender, const transfer::RemoteBuffer& lent,
                             const transfer::LoanOrigin& origin) GPURUN_REQUIRES(engine_lock);
    // Where `bytes` of the lent memory lie here from now on.
    base::Result<std::byte*> map(Entry& entry, const transfer::RemoteBuffer& lent, size_t bytes)
        GPURUN_REQUIRES(engine_lock);
    struct Wanted {
        const Pattern& pattern;
        const transfer::Operand& order;
        platform::TraceEvent* call;
        uint64_t reserved = 0; // the number of the message, if it was taken out of the queue
    };
    // The loan that was found; `borrows`: its order alone, and not its bytes.
    base::Result<Arrived> take_message(EngineLock& lock, const Wanted& wanted, const transfer::Operand& into,
                                       bool borrows) GPURUN_REQUIRES(engine_lock);
    base::Result<Arrived> take(EngineLock& lock, Entry& entry, const transfer::ReadyToSend& ready, const Wanted& wanted)
        GPURUN_REQUIRES(engine_lock);
    base::Result<Arrived> take_copied_tensor(EngineLock& lock, Entry& entry, const Wanted& wanted)
        GPURUN_REQUIRES(engine_lock);
    base::Result<Arrived> take_copy(EngineLock& lock, Entry& entry, const Wanted& wanted) GPURUN_REQUIRES(engine_lock);
    base::Result<Arrived> take_copy_into(EngineLock& lock, transfer::ScratchPool::Block& block, Entry& entry,
                                         const Wanted& wanted) GPURUN_REQUIRES(engine_lock);
    base::Result<Arrived> take_mapped(EngineLock& lock, Entry& entry, const Wanted& wanted)
        GPURUN_REQUIRES(engine_lock);
    base::Result<const Unexpected*> wait_for_loan(EngineLock& lock, const Pattern& pattern)
        GPURUN_REQUIRES(engine_lock);
    Request& start(const Task& task, const LoanTask& lent, std::unique_ptr<LoanDescription> description)
        GPURUN_REQUIRES(engine_lock);
    // Why it cannot be lent at all: then there is no such request.
    std::optional<base::Error> take_refusal(Request& request) GPURUN_REQUIRES(engine_lock);
    void keep_watch() GPURUN_REQUIRES(engine_lock);
    base::Result<void> check_reaches_all(const Group& group) GPURUN_REQUIRES(engine_lock);
    LoanToAll& take_unused() GPURUN_REQUIRES(engine_lock);

    // ---- lending on
    const Borrowed* find_span(const void* address, size_t bytes, bool writable) const GPURUN_REQUIRES(engine_lock);
    // The loan by which this rank has the bytes; null if they are its own memory.
    base::Result<const Borrowed*> check_may_lend(transfer::LoanKind kind, const void* address, size_t bytes)
        GPURUN_REQUIRES(engine_lock);
    base::Result<void> find_source(const Task& task, LoanTask& lent, const LoanDescription* description)
        GPURUN_REQUIRES(engine_lock);
    // An exclusive loan of some of the bytes, or with `any_kind` any, since it has been borrowed itself (null: ever).
    const Request* find_lent(const void* address, size_t bytes, bool any_kind, const Borrowed* since) const
        GPURUN_REQUIRES(engine_lock);
    base::Result<void> check_not_lent_on(const Entry& entry) GPURUN_REQUIRES(engine_lock);
    bool has_of(const transfer::LoanOrigin& loan) GPURUN_REQUIRES(engine_lock);
    void forget_unused() GPURUN_REQUIRES(engine_lock); // of recent_
    void end_those_not_lent_on() GPURUN_REQUIRES(engine_lock);

    // `call`: what the borrower has asked for.
    base::Result<void> receive_description(EngineLock& lock, Entry& entry, const Pattern& call)
        GPURUN_REQUIRES(engine_lock);
    void unpack_tensors(Entry& entry, const std::vector<const std::byte*>& bases) GPURUN_REQUIRES(engine_lock);
    base::Result<void> map_tensors(EngineLock& lock, Entry& entry, const Pattern& call) GPURUN_REQUIRES(engine_lock);
    base::Result<Entry*> find_entry(uint64_t name) GPURUN_REQUIRES(engine_lock);
    base::Result<void> end(Entry& entry, const Order& order) GPURUN_REQUIRES(engine_lock);
    Entry& add() GPURUN_REQUIRES(engine_lock);
    void enter_spans(Entry& entry) GPURUN_REQUIRES(engine_lock);
    void remove(Entry& entry) GPURUN_REQUIRES(engine_lock);

    Core& core_;
    Waiter& waiter_;
    Alarms& alarms_;
    Messages& messages_;
    Requests& requests_;
    PeerFailure& failure_;
    Background& background_;
    std::deque<Entry> entries_; // used again
    std::vector<Entry*> unused_;
    std::deque<LoanToAll> to_all_;            // used again
    std::vector<transfer::Borrowing> recent_; // given back, of what was lent on; its streams may yet use it
    uint64_t copies_ = 0;                     // of loans that could not be mapped, and their bytes
    uint64_t copied_bytes_ = 0;
    uint32_t last_number_ = 0;            // of loans of its own memory
    SpanSet<Borrowed> mapped_;            // of other processes' memory
    SpanSet<Borrowed> writable_;          // those of them that are not read-only
    std::atomic<bool> any_mapped_{false}; // relaxed, as LentMemory::any_exclusive()
};

} // namespace gpurun::comm
