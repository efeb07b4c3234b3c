// Operations that outlive the call that started them, and the table that gives them names.
//
// A Request is taken from the table, started and completed by the engine (comm/engine.hpp), and goes back to the table
// when it is released; a persistent one is started and completed again and again in between. Its memory is used again
// by later requests, so that starting one allocates nothing once as many have been under way before. A name is never
// given twice: an old one is found out.
//
// Used under the engine lock. What a request that is not active is to do may be read without.
#pragma once

#include "comm/matcher.hpp"
#include "transfer/outgoing.hpp"

#include <algorithm>
#include <deque>
#include <optional>
#include <vector>

namespace gpurun::comm {

// What waiting for a request gives.
struct Outcome {
    bool completed = false;                  // by this call
    Arrived arrived{kAnySource, kAnyTag, 0}; // of a receive
    std::optional<base::Error> error;
    bool cancelled = false;
    bool truncates = false; // a receive that has a message may
    size_t room = 0;        // of its buffer
    int type = 0;           // of its elements
    bool gone = false;      // the request's name is none any more
};

struct Abandoned; // the engine's list of requests that were freed while they were active

// What a request is to do: as started, and to be started again if persistent.
struct Task {
    enum class Kind { kSend, kReceive };

    Kind kind = Kind::kSend;
    transfer::Operand operand;
    int peer = kProcNull; // kAnySource too, of a receive
    int tag = 0;
    int type = 0; // of its elements
    uint32_t context = 0;
    bool synchronous = false;
    bool persistent = false;
    uint64_t taken = 0; // the number of the probed message that it receives, else 0
};

struct Request : Task, base::Linked<Request, Abandoned> {
    // Between start and completion.
    bool active = false;
    bool cancelled = false;
    // Neither of them: nothing is left to do (with PROC_NULL, or a small message that has gone, or come at once).
    std::optional<transfer::Outgoing> send;
    std::optional<Receive> receive;

    std::optional<Arrived> came_at_once;

    uint64_t id = 0;

    bool under_way() const { return send || receive; }
    bool done() const { return send ? send->done() : !receive || receive->incoming.done(); }
    bool enqueued() const { return send ? send->enqueued() : !receive || receive->incoming.enqueued(); }
    bool needs_hand() const {
        return send ? send->needs_hand() : receive.has_value() && receive->incoming.needs_hand();
    }
    std::optional<transfer::Awaited> awaited() const {
        return send ? send->awaited() : receive ? receive->incoming.awaited() : std::nullopt;
    }
};

base::Error no_request(uint64_t name);

// What a name stands for: a Request, or a small message in the host's order, which is complete, or is a receive that
// waits for its message. It becomes a Request if anything unusual is to be done with it (Engine::promote()).
struct alignas(64) Named : ShortReceive {
    uint64_t id = 0;
    Request* request = nullptr;
    Task::Kind kind = Task::Kind::kSend; // without a request, as is the next
    int type = 0;                        // of its elements
};

class RequestTable {
  public:
    RequestTable() { none_.id = kPlace; }
    RequestTable(const RequestTable&) = delete;
    RequestTable& operator=(const RequestTable&) = delete;

    Request& take(const Task& task);
    // A small message, of which all is to be said yet.
    Named& take_short(Task::Kind kind, int type) {
        Named& named = take_name();
        named.request = nullptr;
        named.kind = kind;
        named.type = type;
        return named;
    }
    // A Request for it, of the same name.
    Request& promote(Named& named);
    void release(Request& request);
    void release(Named& named) {
        unused_names_.push_back(&named);
        named.id += kUse; // no lookup finds it until it is taken again
    }
    // Null if `id` names none, or none any more.
    Named* find(uint64_t id) {
        const uint64_t place = id & kPlace;
        if (place >= by_place_.size())
            return nullptr;
        Named* const named = by_place_[place];
        return named->id == id ? named : nullptr;
    }
    // Those under way and all others that there ever were at the same time, up to `most`. False if there are more.
    template <typename Visit>
    bool for_each(size_t most, const Visit& visit) const {
        for (size_t i = 0; i < std::min(most, all_.size()); ++i)
            visit(all_[i]);
        return all_.size() <= most;
    }

  private:
    // A name: the use of a place above, the place below.
    static constexpr uint64_t kUse = uint64_t{1} << 32;
    static constexpr uint64_t kPlace = kUse - 1;

    Named& take_name() {
        if (unused_names_.empty())
            add_name();
        Named& named = *unused_names_.back();
        unused_names_.pop_back();
        named.id += kUse;
        return named;
    }
    void add_name();
    Request& take_request();

    Named none_; // in place 0, by a name of another place, so that no look-up finds it
    std::deque<Named> named_;
    std::vector<Named*> by_place_{&none_};
    std::vector<Named*> unused_names_;
    std::deque<Request> all_;
    std::vector<Request*> unused_;
};

} // namespace gpurun::comm
