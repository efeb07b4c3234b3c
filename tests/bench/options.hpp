// The command line of gpurun-perf. Knows nothing of the job: what depends on devices is decided in plan.hpp.
#pragma once

#include "refusal.hpp"

#include <array>
#include <cstddef>
#include <string>
#include <vector>

namespace gpurun::bench {

enum class Test { kLatency, kBandwidth, kBidirectional, kRate, kExchange, kCollective, kOverlap, kCall, kFirst, kLoan };
// Of the calls of an exchange, which are not blocking ones alone; or of collectives, which are no others than the
// first, requests that are waited for at once, and groups of one.
enum class Form { kBlocking, kSendrecv, kRequests, kStartall, kGroup };
enum class Collective {
    kAllreduce,
    kBcast,
    kAllgather,
    kAlltoall,
    kReduceScatter,
    kReduce,
    kGather,
    kScatter,
    kBarrier
};
enum class Memory { kDevice, kDeviceAsync, kDeviceMapped, kPinned, kHost };
constexpr bool on_device(Memory memory) { return memory != Memory::kPinned && memory != Memory::kHost; }
enum class Order { kStream, kHost, kGraph }; // kGraph: in stream order, captured once and run again and again
enum class Reference { // what gpurun is held against; the last are algorithms of its own (tuning.hpp)
    kCopy,
    kNccl,
    kNcclWindow,
    kTcp,
    kFabric,
    kDirect,
    kDoubling,
    kPieces,
    kTree
};
constexpr bool is_network(Reference reference) {
    return reference == Reference::kTcp || reference == Reference::kFabric;
}

struct Options {
    std::vector<Test> tests{Test::kLatency, Test::kBandwidth};
    std::vector<size_t> sizes;                                      // empty: each test's own
    std::array<Memory, 2> memory{Memory::kDevice, Memory::kDevice}; // of the even and the odd rank of a pair
    std::vector<Order> orders{Order::kStream, Order::kHost};
    std::vector<Reference> against;
    int window = 64;
    Form form = Form::kGroup; // of exchanges
    Form collective_form = Form::kBlocking;
    std::vector<Collective> collectives{Collective::kAllreduce};
    bool tune = false;         // say which algorithms are best
    bool in_place = false;     // of collectives
    bool window_asked = false; // else the default, which is not every test's
    int iterations = 500;
    int warmup = 5;
    bool validate = false;
    bool json = false;
    std::string plot; // empty: none
};

const char* name(Test test);
const char* name(Memory memory);
const char* name(Order order);
const char* name(Reference reference);
const char* name(Form form);
const char* name(Collective collective);

// Whether there is such a measurement: some tests are of one order domain only.
bool measured_in(Order order, Test test);

Or<Options> parse_options(int argc, const char* const* argv);

} // namespace gpurun::bench
