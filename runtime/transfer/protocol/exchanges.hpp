// What stands in one stream of the program's, and belongs to calls that are made together (a sendrecv, a group), to
// requests that one call starts (startall), to requests that one call completes, or to a collective: it crosses in one
// kernel there, since launching one costs more than all else in a message that is not long. Mails that are put and
// taken; copies between edges, with the signals and the waits of the other side's; and what a collective reduces.
//
// A mail is collected once its record has been posted, or has come; launch() is called before this rank gives up the
// engine lock. So a peer's kernel may wait for a mail that is not enqueued yet, but no longer than that. For the same
// reason launch() comes before anything else in the stream that waits for a peer. What is put waits for nothing in the
// kernel, whatever is taken beside it.
//
// A launch that fails means that the device has failed, and with it this rank. Neither this rank nor a peer may wait
// for its mails, so their edges are poisoned.
//
// One a rank; used under the engine lock.
#pragma once

#include "device/capability/counters.hpp"
#include "device/capability/fused_reduce.hpp"
#include "transfer/pool/pools.hpp"

#include <optional>
#include <vector>

namespace gpurun::transfer {

class Exchanges {
  public:
    Exchanges(device::Device& device, Pools& pools)
        : mails_(device.mails()), fused_reduce_(device.fused_reduce()), counters_(device.counters()), pools_(pools) {}

    // REQUIRES: the device has mails.
    void put(const device::OutgoingMail& mail, device::Stream stream);
    void take(const device::IncomingMail& mail, device::Stream stream);
    bool has_mails() const { return mails_ != nullptr; }
    // Whether what comes can be reduced without being taken.
    bool can_reduce() const { return fused_reduce_ != nullptr; }
    // Behind all that stands in the stream so far, with what is signalled there. REQUIRES can_reduce().
    void reduce(const device::FusedReduction& reduction, device::Stream stream);
    // Of a reduction that cannot be made: whoever waits for the end of these is released.
    static void abandon(std::span<const device::FusedReduction::Operand> operands);
    // The stream has come here: a buffer of this rank may be read.
    void signal(const device::CounterValue& signal, device::Stream stream);
    // A copy that a peer will pull, and that waits for nobody. REQUIRES that the device has fenced copies.
    void copy_out(const device::FencedCopy& copy, device::Stream stream);
    // A copy of a peer's buffer. REQUIRES the same.
    void pull(const device::FencedCopy& pull, device::Stream stream);
    // Behind what is collected in the stream. False: there is nothing.
    bool await(const device::CounterValue& awaited, device::Stream stream);
    // While one call completes several operations into a stream: what they await there is collected, too, but for the
    // first few, which the stream awaits itself.
    void begin_completion() { awaited_ = 0; }
    void end_completion() { awaited_.reset(); }
    // False: the stream is to await it.
    bool await_at_once(const device::CounterValue& awaited, device::Stream stream);
    // Whether something that is collected signals, so that its peers may soon say what is to be awaited.
    bool signals() const;
    // A copy on this device, behind all that stands in the stream so far, and beside what is collected there.
    void copy(const device::CopyBeside& copy, device::Stream stream);
    bool empty() const { return open_ == 0; }
    size_t puts(device::Stream stream); // that are collected there
    // While one call starts several requests: the mails that these put into their streams are collected, too.
    void collect(bool collects) { collects_ = collects; }
    bool collects() const { return collects_; }
    void launch() {
        if (!empty()) [[unlikely]]
            launch_all();
    }

  private:
    struct Exchange {
        device::Stream stream;
        std::vector<device::OutgoingMail> puts;
        std::vector<device::IncomingMail> takes;
        std::vector<device::CopyBeside> copies;
        std::vector<device::FencedCopy> pulls; // what is copied out, then what is pulled
        size_t copied_out = 0;
        std::vector<device::CounterValue> signals;
        // Instead of takes, copies and pulls, of the operands below; nothing is collected behind it.
        std::optional<device::FusedReduction> reduction;
        std::vector<device::FusedReduction::Operand> operands;
        std::vector<device::CounterValue> awaits;

        bool is_empty() const {
            return puts.empty() && takes.empty() && copies.empty() && pulls.empty() && signals.empty() && !reduction;
        }
        device::Exchange all() const { return {puts, takes, copies, pulls, signals, awaits}; }
        std::span<device::FencedCopy> outward() { return std::span(pulls).first(copied_out); }
        std::span<device::FencedCopy> inward() { return std::span(pulls).subspan(copied_out); }
        void clear();
    };
    Exchange* find(device::Stream stream);
    Exchange& in(device::Stream stream);
    static bool overlaps(const Exchange& exchange, const device::CopyBeside& copy);
    void launch_all();
    void launch(Exchange& exchange);
    base::Result<void> enqueue(Exchange& exchange);
    base::Result<void> enqueue_reduction(Exchange& exchange);
    base::Result<void> begin_without_waiting(Exchange& exchange);
    base::Result<void> await_in_stream(std::span<const device::CounterValue> all, device::Stream stream);
    uint32_t blocks_of(const Exchange& exchange) const;
    bool admits(const Exchange& exchange);
    bool may_spin(Exchange& exchange);

    device::Mails* const mails_;
    device::FusedReduce* const fused_reduce_;
    device::Counters* const counters_;
    Pools& pools_;
    std::vector<Exchange> exchanges_; // the first ones are open, the rest is memory for more
    size_t open_ = 0;
    bool collects_ = false;
    std::optional<size_t> awaited_; // by the call that completes
};

} // namespace gpurun::transfer
