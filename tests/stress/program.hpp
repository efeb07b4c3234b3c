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
#pragma once

#include "support/job.hpp"

#include <cstdint>
#include <vector>

namespace gpurun::stress {

constexpr int kMaxThreads = 3;
constexpr int kStreams = 3;            // of each thread
constexpr int kDomains = 1 + kStreams; // 0: the host's
constexpr int kNone = -1;

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
    uint64_t content = 0; // the seed of its bytes
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

// What one thread of each rank does.
struct Part {
    std::vector<Message> messages;
    std::vector<Receive> receives;
    std::vector<Completion> completions;
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

Program make_program(uint64_t seed, int ranks);

// The order in which MPI matches the messages of one sender with one thread's receives: for each receive (by position)
// the index in `messages` (by position) that it takes, or kNone. Does not depend on timing.
std::vector<int> match_pair(const std::vector<const Message*>& messages, const std::vector<const Receive*>& receives);

// The receive that a sendrecv makes with `message`.
int ring_receive(const Part& part, const Message& message);

bool has_request(SendWay way);
bool has_request(ReceiveWay way);

} // namespace gpurun::stress
