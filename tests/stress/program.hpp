// A random program: who sends what to whom, how, and when.
//
// A program is a row of epochs, in each of which every message that is sent is received. Time in an epoch is a line of
// positions. Each start of a send or a receive has one, each completion of requests has one, and every thread makes
// its calls in their order. A call waits only for starts at earlier positions, or for its own other half at the same
// one (generate.cpp keeps to that): so by induction over positions no program deadlocks, however late a rank is.
//
// Most receives have one message that MPI's matching gives them, whatever the timing: it is known here. The receives of
// an open class (wildcards that several senders' messages fit) share the messages of the class; there only the order of
// each sender's messages is known. Tags are of one epoch and one thread, so that a rank that is ahead disturbs nobody;
// an epoch in which receives name neither source nor tag ends in a barrier.
//
// A collective has one position on all ranks (joint.hpp): a call that waits for it waits for calls at the same
// position. So do the ranks of an exchange (exchange.hpp): they start all of it before they wait for any of it. And
// those of a row (row.hpp): they call its collectives in one order.
//
// Some calls are captured (captured.hpp). A capture has the same two positions on all ranks, and its calls have theirs
// between these, so capturing waits as the calls outside of it do: for earlier positions only. Its messages stay among
// its own graphs, of which each rank has one. A launch, too, has one position on all ranks. What it enqueues waits for
// what was enqueued in its stream before, that is, at earlier positions; for the graphs that the other ranks launch at
// the same one; and among these only for calls at earlier positions of the capture. So by induction over positions, and
// in one launch over those of the capture, whatever is enqueued comes to its end.
//
// This takes every stream for one of its own. But internal streams and a GPU's queues are shared: what waits for a
// graph that a peer has yet to launch may hold up an older message of another stream, which that peer needs first. So
// before some graphs are launched all ranks wait for each other, and then launch them without waiting for anything
// else.
#pragma once

#include "support/job.hpp"

#include <cstdint>
#include <vector>

namespace gpurun::stress {

constexpr int kMaxThreads = 3;
constexpr int kStreams = 3;            // of each thread
constexpr int kDomains = 1 + kStreams; // 0: the host's
constexpr int kNone = -1;

inline size_t at(int index) { return static_cast<size_t>(index); }

enum class SendWay { kSend, kSsend, kIsend, kIssend, kPersistent, kPersistentSync, kSendrecv, kReplace };
enum class ReceiveWay {
    kRecv,
    kProbe,     // then recv
    kIprobe,    // until there is one, then recv
    kMprobe,    // then mrecv
    kImprobe,   // until there is one, then mrecv
    kRetry,     // irecv, cancel, wait; if it was taken back, recv
    kTakeStart, // mprobe, then imrecv
    kIrecv,
    kPersistent,
    kCancelled, // irecv that nothing fits, taken back when it is to be completed
    kSendrecv,
    kReplace,
};
enum class CompleteWay { kEach, kAll, kAny, kSome, kTestEach, kTestAll, kTestAny, kTestSome };

struct Message {
    int source, dest, tag;
    size_t bytes;
    SendWay way = SendWay::kIsend;
    test::Kind kind = test::Kind::kDevice;
    int domain = 0;
    int position = 0;
    int open_class = kNone;
    uint64_t content = 0; // the seed of its bytes; of a captured one's in its first run
    bool refused = false; // captured, between ranks whose messages cannot be
};

struct Receive {
    int rank;
    int source, tag; // as asked for
    size_t room;
    ReceiveWay way = ReceiveWay::kIrecv;
    test::Kind kind = test::Kind::kDevice;
    int domain = 0;
    int position = 0;
    int open_class = kNone;
    int message = kNone; // that it takes, unless its class is open
};

struct Started {
    bool is_send;
    int index;
};

struct Completion {
    int rank;
    int position;
    CompleteWay way;
    int domain;
    std::vector<Started> requests;
};

// A call of all ranks that is not captured.
struct Joint {
    enum What { kBarrier, kBcast, kAllreduce, kReduce, kScan, kReduceScatterBlock, kAllgather, kAlltoall };
    enum Form { kBlocking, kStarted, kPersistent };

    What what;
    Form form;
    int position;
    int completion; // position; of one that is not blocking
    int root;
    size_t count; // elements
    test::Kind kind;
    int domain, domain_of_completion;
    bool on_own_comm; // of the thread; else on that of its messages, if no other thread uses it
    uint64_t content;
};

// Requests that the ranks start in a row and then complete, all at one position, on a communicator of their own.
struct Exchange {
    enum Form { kRequests, kStartall, kGroup };
    enum Order { kAsListed, kReceivesFirst, kShuffled }; // of a rank's starts
    struct Transfer {
        int source, dest;
        size_t bytes, room;
    };

    Form form;
    Order order;
    int position;
    int turns;
    CompleteWay way;
    bool in_two; // every other turn completes one half first
    test::Kind kind;
    int domain, domain_of_completion;
    uint64_t content;
    std::vector<Transfer> transfers;
};

// Collectives that the ranks call in a row, each rank in a way of its own, all at one position.
struct Row {
    int position;
    int turns;
    int domain, domain_of_completion;
    uint64_t content;
    std::vector<Joint> joints;
};

// A captured call of all ranks.
struct Collective {
    int position;
    bool is_barrier;
    int root;
    size_t bytes;
    test::Kind kind;
    int domain;
    uint64_t content;
};

struct Launch {
    int position;             // of several runs in a row
    bool gathers;             // the first of them
    std::vector<int> domains; // by rank
};

// What becomes one graph of each rank, and its runs.
struct Capture {
    std::vector<int> domains; // streams; the capture begins in the first, and the others join it
    int begin = 0, end = 0;   // positions
    std::vector<Message> messages;
    std::vector<Receive> receives;
    std::vector<Completion> completions;
    std::vector<Collective> collectives;
    std::vector<Launch> launches;
    std::vector<int> destroys; // positions, by rank
    int gather_tag = kNone;    // of a barrier of threads, if there are several: they cannot use gpurun_barrier()
};

// What one thread of each rank does.
struct Part {
    std::vector<Message> messages;
    std::vector<Receive> receives;
    std::vector<Completion> completions;
    std::vector<Joint> joints;
    std::vector<Exchange> exchanges;
    std::vector<Row> rows;
    std::vector<Capture> captures;
};

// What can be captured.
struct Capturable {
    std::vector<std::vector<bool>> pairs; // [a][b]: messages between ranks a and b
    bool ordered;                         // memory of Kind::kOrdered
    bool graphs;                          // anything at all
};

struct Epoch {
    std::vector<Part> parts; // by thread
    bool barrier = false;
};

struct Program {
    uint64_t seed;
    int ranks;
    int threads;
    std::vector<Epoch> epochs;
};

Program make_program(uint64_t seed, int ranks, const Capturable& capturable);

// Where one thread of an epoch has room for captures.
struct Room {
    int ranks;
    int threads;
    std::vector<int> tags; // of captured messages
    int gather_tag;
    std::vector<int> positions; // that nothing has; ascending
    int end;                    // behind all positions
};

// Adds captures to a part, whose calls in streams that are captured meanwhile get other domains.
void add_captures(Part& part, const Room& room, const Capturable& capturable, uint64_t seed);

// The order in which MPI matches the messages of one sender with one thread's receives: for each receive (by position)
// the index in `messages` (by position) that it takes, or kNone. Does not depend on timing.
std::vector<int> match_pair(const std::vector<const Message*>& messages, const std::vector<const Receive*>& receives);

// The receive that a sendrecv makes with `message`.
int ring_receive(const Part& part, const Message& message);

// The call that starts, or makes, such a send's request. REQUIRES: it has one.
decltype(&gpurun_isend) start_of(SendWay way);
bool has_request(SendWay way);
bool has_request(ReceiveWay way);

} // namespace gpurun::stress
