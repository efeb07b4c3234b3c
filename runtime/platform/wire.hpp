// What launcher and ranks say to each other while a job starts and ends, and when somebody asks what ranks wait for:
// one fixed struct a message.
//
//   rank -> launcher   Hello                   who I am, which versions I speak
//   launcher -> rank   Trace + segment fd      with --trace: where to record (trace_buffer.hpp)
//   launcher -> rank   Welcome + segment fd    or Refusal: the job cannot start, and why
//   rank -> launcher   Ready (+ device fd)     my record in the segment is written
//   launcher -> rank   PeerDevice + device fd  one for each other rank that has one
//   launcher -> rank   Go                      every rank is ready
//   rank -> launcher   Abort                   end the job with this code
//   launcher -> rank   Ask                     send your wait report; at any time after Go
//   rank -> launcher   Answer...               an entry of it each (wait_report.hpp)
//   rank -> launcher   Answered                that was all of it
//
// The launcher never trusts what it reads: a message of a wrong size, kind or rank ends the job with one line.
#pragma once

#include "platform/wait_report.hpp"

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace gpurun::platform::wire {

constexpr uint32_t kMagic = 0x6e727567; // "gurn"
constexpr uint32_t kProtocol = 3;

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
    kTrace
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
};

struct PeerDevice { // + the peer's device descriptor
    Header header{kMagic, Kind::kPeerDevice};
    int32_t rank = -1;
};

struct Go {
    Header header{kMagic, Kind::kGo};
};

struct Abort {
    Header header{kMagic, Kind::kAbort};
    int32_t code = 1;
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

} // namespace gpurun::platform::wire
