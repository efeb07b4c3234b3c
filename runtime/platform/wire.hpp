// What launcher and ranks say to each other while a job starts and ends, and when somebody asks what ranks wait for:
// one fixed struct a message.
//
//   rank -> launcher   Join (+ listener fd)    from a process that gpurun did not start: which rank I want to be
//   launcher -> rank   Joined                  all ranks have come: go on with Hello. Or Refusal, or Again: the job has
//                                              just ended, call once more
//   rank -> launcher   Hello                   who I am, which versions I speak
//   launcher -> rank   Trace + segment fd      with --trace: where to record (trace_buffer.hpp)
//   launcher -> rank   Welcome + segment fd    or Refusal: the job cannot start, and why
//   rank -> launcher   Ready (+ device fd)     my record in the segment is written
//   launcher -> rank   PeerDevice + device fd  one for each other rank that has one
//   launcher -> rank   Go                      every rank is ready
//   rank -> launcher   Abort                   end the job with this code
//   rank -> launcher   Leaving                 with other nodes: to which step of gpurun_finalize() I have come
//   launcher -> rank   Ask                     send your wait report; at any time after Go
//   rank -> launcher   Answer...               an entry of it each (wait_report.hpp)
//   rank -> launcher   Answered                that was all of it
//   anyone -> launcher Query                   from a process of the same user (gpurun jobs): what does the job do?
//   launcher -> it     Listing + text fd       as JSON (launcher/job_json.hpp), sealed (sealed_text.hpp). Or Refusal
//   job -> job         Meet                    I want to meet the job that accepts under this name (job_meeting.hpp)
//   job <- job         Met                     the name of the joint job, which all ranks of both are to join. Or
//   Refusal
//
// The launcher never trusts what it reads: a message of a wrong size, kind or rank ends the job with one line.
#pragma once

#include "base/status.hpp"
#include "platform/node_meeting.hpp"
#include "platform/wait_report.hpp"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string_view>
#include <type_traits>

namespace gpurun::platform::wire {

constexpr uint32_t kMagic = 0x6e727567; // "gurn"
constexpr uint32_t kProtocol = 8;
constexpr int kListener = 3; // the descriptor on which a supervisor listens for ranks that join

enum class Kind : uint32_t {
    kHello = 1,
    kWelcome,
    kRefusal,
    kReady,
    kPeerDevice,
    kGo,
    kAbort,
    kAsk,
    kAnswer,
    kAnswered,
    kTrace,
    kJoin,
    kJoined,
    kAgain,
    kQuery,
    kListing,
    kMeet,
    kMet,
    kLeaving
};

struct Header {
    uint32_t magic = kMagic;
    Kind kind{};
};

// Its first three fields keep their places in every protocol, so that versions that differ can say so.
struct Hello {
    Header header{kMagic, Kind::kHello};
    uint32_t protocol = kProtocol;
    uint32_t version = 0; // major << 16 | minor << 8 | patch
    uint32_t layout = 0;  // of the job segment
    int32_t rank = -1;
    int32_t pid = -1;
};

// Its first field keeps its place in every protocol.
struct Join {
    Header header{kMagic, Kind::kJoin};
    uint32_t protocol = kProtocol;
    int32_t rank = -1;
    int32_t size = 0;
    int32_t timeout_ms = 0; // how long the first rank waits for the last
    int32_t here = 0;       // how many of the ranks are on this node
    // With ranks on others: where the nodes meet (node_meeting.hpp). Rank 0 sends the socket that listens there, too.
    char meeting[kLongestMeeting + 4] = {};
};

struct Joined {
    Header header{kMagic, Kind::kJoined};
    char address[48] = {}; // by which other nodes reach this one; "": there are none
};

struct Again {
    Header header{kMagic, Kind::kAgain};
};

struct Welcome { // + the job segment
    Header header{kMagic, Kind::kWelcome};
    uint32_t size = 0;
    uint32_t cores = 0; // processors that the job's ranks share: with more ranks than these, nobody spins
};

struct Trace { // + the rank's trace buffer
    Header header{kMagic, Kind::kTrace};
};

struct Refusal {
    Header header{kMagic, Kind::kRefusal};
    int32_t status = 0; // a base::Status
    char text[500] = {};
};

struct Ready { // + the rank's device descriptor, if it has one
    Header header{kMagic, Kind::kReady};
    char device[48] = {}; // for people

    void call_device(std::string_view text) { text.copy(device, sizeof device - 1); }
};

struct PeerDevice { // + the peer's device descriptor
    Header header{kMagic, Kind::kPeerDevice};
    int32_t rank = -1;
};

struct Go {
    Header header{kMagic, Kind::kGo};
};

// Its first field keeps its place in every protocol.
struct Query {
    Header header{kMagic, Kind::kQuery};
    uint32_t protocol = kProtocol;
};

struct Listing { // + a text
    Header header{kMagic, Kind::kListing};
};

// Its first field keeps its place in every protocol.
struct Meet {
    Header header{kMagic, Kind::kMeet};
    uint32_t protocol = kProtocol;
    uint32_t ranks = 0;
    uint64_t job[2] = {}; // which one it is
    uint32_t mps = 0;     // ranks that share a GPU with others of the user run on it at the same time
    uint32_t unused = 0;
};

struct Met {
    Header header{kMagic, Kind::kMet};
    uint32_t ranks = 0;
    uint32_t mps = 0; // of both
    char name[68] = {};
};

struct Abort {
    Header header{kMagic, Kind::kAbort};
    int32_t code = 1;
};

struct Leaving {
    Header header{kMagic, Kind::kLeaving};
    uint32_t steps = 0;
};

struct Ask {
    Header header{kMagic, Kind::kAsk};
    uint32_t number = 0; // of the question, which its answer repeats
};

struct Answer {
    Header header{kMagic, Kind::kAnswer};
    uint32_t number = 0;
    uint32_t unused = 0;
    wait_report::Entry entry;
};

struct Answered {
    Header header{kMagic, Kind::kAnswered};
    uint32_t number = 0;
    wait_report::End end;
};

static_assert(sizeof(Ask) == 12 && sizeof(Answer) == 160 && sizeof(Answered) == 40);
static_assert(sizeof(Header) == 8 && sizeof(Hello) == 28 && sizeof(Welcome) == 16 && sizeof(Refusal) == 512);
static_assert(std::is_trivially_copyable_v<Hello> && std::is_trivially_copyable_v<Refusal>);

template <typename Message>
std::span<const std::byte> bytes_of(const Message& message) {
    return std::as_bytes(std::span(&message, 1));
}

// Of a message that is too short for one, an empty one.
inline Header header_of(std::span<const std::byte> message) {
    Header header{};
    if (message.size() >= sizeof header)
        std::memcpy(&header, message.data(), sizeof header);
    return header;
}

inline Refusal refusal_for(base::Status status, std::string_view text) {
    Refusal refusal;
    refusal.status = static_cast<int32_t>(status);
    text.copy(refusal.text, sizeof refusal.text - 1);
    return refusal;
}

// The error that a refusal carries; none if the message is something else.
inline std::optional<base::Error> refused_by(std::span<const std::byte> message) {
    if (header_of(message).kind != Kind::kRefusal || message.size() != sizeof(Refusal))
        return std::nullopt;
    Refusal refusal;
    std::memcpy(&refusal, message.data(), sizeof refusal);
    refusal.text[sizeof refusal.text - 1] = '\0';
    return base::Error{static_cast<base::Status>(refusal.status), refusal.text};
}

} // namespace gpurun::platform::wire
