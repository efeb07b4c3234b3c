// Whether all ranks have called a collective alike: the same function, with a root, a type, an operation and counts
// that agree.
//
// Each message of a collective carries the signature of its sender's call (signature.hpp), which is compared as it
// arrives, whether a receive waits for it or not. A rank that sees another signature than its own, or a message of
// another length, or one that it does not expect, tells all ranks of the communicator who has called what (a mismatch
// note). Then every rank's collective breaks off: it starts no more steps, withdraws its receives, and takes in and
// drops what still comes for it, so that the sends of the others end. So nobody waits for a rank that has called
// something else. A rank whose part was over by then is told by its next collective of that communicator.
//
// Ranks that wait for messages that nobody sends see nothing. With GPURUN_CHECK=1 each rank first tells every other one
// its signature, and what it sends it and expects of it (a call note), and starts no step before it has heard of all.
//
// Notes are small messages in the collective context that no receive is posted for. What comes for a collective that
// this rank has not called yet is kept until it does. Owned by Schedules; used under the engine lock.
#pragma once

#include "comm/progress.hpp"
#include "comm/schedule_run.hpp"

#include <deque>

namespace gpurun::comm {

class CollectiveCheck {
  public:
    // `running`: the runs that were begun, until they are released.
    CollectiveCheck(Core& core, Progress& progress, base::List<ScheduleRun, Running>& running);

    // Of a run that is about to start, which has its steps.
    void begin(ScheduleRun& run) GPURUN_REQUIRES(engine_lock);
    // Of one whose steps are done as they are added: how many of its messages have come before this rank's call. None
    // if it has to be begun, since something was found already, or everything is checked.
    std::optional<uint32_t> begin_now(const Schedule& schedule) GPURUN_REQUIRES(engine_lock);
    // What was found of one that was over here, for the next one to return.
    std::optional<base::Error> take_late(const Communicator& comm) GPURUN_REQUIRES(engine_lock);
    // Of one that goes on, or has come to its end: tells the others what it has found, or that it has failed.
    void look(ScheduleRun& run) GPURUN_REQUIRES(engine_lock);
    // Of one that is released.
    void end(ScheduleRun& run) GPURUN_REQUIRES(engine_lock);
    bool has_untold() const { return !untold_.empty(); }
    // Posts the notes that have found no room before.
    void post_notes() GPURUN_REQUIRES(engine_lock);

  private:
    // By the context without the bit of captured messages, and the number among the communicator's collectives.
    struct Place {
        uint32_t context;
        uint16_t sequence;
        bool operator==(const Place&) const = default;
    };
    struct Early { // what has come before this rank's call
        Place place;
        uint32_t messages = 0;
        uint64_t sources = 0; // bits by rank, modulo 64
        Mismatch::Call first{};
        std::optional<Mismatch> mismatch;
        bool told = false; // by another rank, which has told all
    };
    struct EarlyCall {
        Place place;
        Mismatch::Call call;
        CallNote note;
    };
    struct Untold {
        WorldRank to;
        transfer::Envelope envelope;
        uint64_t signature;
        std::array<std::byte, sizeof(Mismatch)> payload;
    };
    struct Late {
        uint32_t context;
        base::Error error;
    };

    // A message of a collective. True: it was taken in, and is for no receive.
    bool arrive(transfer::Peer& source, uint64_t ordinal, const transfer::Record& record,
                std::span<const std::byte> payload) GPURUN_REQUIRES(engine_lock);
    bool arrive_for(ScheduleRun& run, const Mismatch::Call& call, const transfer::Record& record,
                    std::span<const std::byte> payload) GPURUN_REQUIRES(engine_lock);
    bool arrive_early(const Place& place, const Mismatch::Call& call, const transfer::Record& record,
                      std::span<const std::byte> payload) GPURUN_REQUIRES(engine_lock);
    void arrive_late(const Communicator& comm, const Place& place, const Mismatch::Call& call,
                     const transfer::Record& record, std::span<const std::byte> payload) GPURUN_REQUIRES(engine_lock);
    void note_late(const Communicator& comm, uint16_t sequence, const Mismatch& mismatch, bool told)
        GPURUN_REQUIRES(engine_lock);
    // `source` is ahead, at `place`. Whether it has called what this rank still waits for, is for it to say.
    void ask(const Place& place, WorldRank source) GPURUN_REQUIRES(engine_lock);
    void ask(ScheduleRun& run, WorldRank source) GPURUN_REQUIRES(engine_lock);
    // But of whom some message has `come`.
    void ask_who_is_ahead(ScheduleRun& run, const Place& place, uint64_t come) GPURUN_REQUIRES(engine_lock);
    void compare(ScheduleRun& run, const Mismatch::Call& call, const CallNote& theirs) GPURUN_REQUIRES(engine_lock);
    ScheduleRun* find(const Place& place) const;
    std::vector<Late>::iterator late_of(const Communicator& comm); // late_'s end: none
    Early& early(const Place& place);
    uint64_t take_early(ScheduleRun& run, const Place& place) GPURUN_REQUIRES(engine_lock);
    void exchange_calls(ScheduleRun& run, const Place& place) GPURUN_REQUIRES(engine_lock);
    void break_off(ScheduleRun& run, const Mismatch& mismatch, bool told) GPURUN_REQUIRES(engine_lock);
    // Takes in what no receive has taken of it. The first of these messages.
    std::optional<Mismatch::Call> drop_unexpected(const Place& place) GPURUN_REQUIRES(engine_lock);
    void tell(const Communicator& comm, uint16_t sequence, const Mismatch& mismatch) GPURUN_REQUIRES(engine_lock);
    template <typename Note>
    void post_note(const Communicator& comm, int tag, WorldRank to, uint64_t signature, const Note& note)
        GPURUN_REQUIRES(engine_lock);
    bool post(const Untold& note) GPURUN_REQUIRES(engine_lock);

    Core& core_;
    Progress& progress_;
    base::List<ScheduleRun, Running>& running_;
    std::deque<Early> early_; // of the collectives in which others are ahead: the next one is in front
    std::vector<EarlyCall> early_calls_;
    std::vector<Untold> untold_;
    std::vector<Late> late_; // at most one of a communicator
};

} // namespace gpurun::comm
