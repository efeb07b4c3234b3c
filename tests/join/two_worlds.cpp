// A rank that is in its own job and, for a while, in a joint one, on one device:
//
//   two_worlds accept|connect NAME ROUNDS [survive|die]
//
// In each round the job meets another one, its ranks open a world over the ranks of both, pass messages round in it in
// host order, in the order of a stream, and by a collective, while messages of their own job are under way, and leave
// it. With `survive` they wait for a message of the last rank, which dies: with `die`, all do.
#include "api/world.hpp"
#include "comm/collective/bcast.hpp"
#include "comm/point_to_point.hpp"
#include "device/capability/graphs.hpp"
#include "device/open.hpp"
#include "platform/job_meeting.hpp"

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <gpurun/version.h>
#include <string>
#include <unistd.h>
#include <utility>
#include <vector>

using namespace gpurun;
using base::Result;

namespace {

constexpr uint32_t kVersion = GPURUN_VERSION_MAJOR << 16 | GPURUN_VERSION_MINOR << 8 | GPURUN_VERSION_PATCH;
constexpr size_t kSmall = 512;
constexpr size_t kLarge = 3 << 20;
constexpr int64_t kLongMs = 60'000;

[[noreturn]] void fail(const std::string& what) {
    std::printf("%s\n", what.c_str());
    std::fflush(stdout);
    std::_Exit(1);
}

template <typename T>
T must(Result<T> result, const char* what) {
    if (!result)
        fail(std::string(what) + ": " + result.error().detail);
    if constexpr (!std::is_void_v<T>)
        return std::move(*result);
}

transfer::Operand host_operand(void* memory, size_t bytes) {
    transfer::Operand operand;
    operand.address = static_cast<std::byte*>(memory);
    operand.bytes = bytes;
    return operand;
}

struct Counts {
    long descriptors = 0;
    long mappings = 0;
    bool operator==(const Counts& other) const = default;
};

Counts counts() {
    Counts now;
    now.descriptors =
        std::distance(std::filesystem::directory_iterator("/proc/self/fd"), std::filesystem::directory_iterator());
    std::ifstream maps("/proc/self/maps");
    for (std::string line; std::getline(maps, line);)
        ++now.mappings;
    return now;
}

class Rank {
  public:
    Rank()
        : settings_(must(base::read_settings([](const char* name) { return std::getenv(name); }), "settings")),
          device_(open()) {
        must(device_->make_current(), "make_current");
        home_ = join(settings_, {});
    }

    std::unique_ptr<api::World> join(const base::Settings& settings, const comm::Names& names) {
        auto session = must(platform::JobSession::connect(settings, kVersion), "connect");
        return must(api::World::open({*device_, runs_, process_, names}, settings, std::move(session)), "open");
    }

    // The first rank of the job meets, and tells the others.
    std::unique_ptr<api::World> meet(bool accepts, const char* name) {
        struct {
            char name[80] = {};
            uint32_t first = 0;
            uint32_t size = 0;
        } told;
        const auto ranks = static_cast<uint32_t>(home_->all().size());
        if (home_->session().rank() == 0) {
            const auto self = must(platform::Party::of(home_->session().segment(), ranks, kLongMs), "party");
            const auto joint =
                must(accepts ? platform::accept_job(name, self) : platform::connect_job(name, self), "meet");
            std::strncpy(told.name, joint.name.c_str(), sizeof told.name - 1);
            told.first = joint.first;
            told.size = joint.size;
        }
        broadcast(*home_, &told, sizeof told);
        return join(platform::settings_in({told.name, told.first, told.size}, home_->session().rank(), settings_),
                    comm::Names{.engine = 3, .first_use = ++meetings_});
    }

    static void broadcast(api::World& world, void* memory, size_t bytes) {
        const transfer::Operand buffer = host_operand(memory, bytes);
        const auto build = [&](comm::Schedule& schedule) {
            comm::build_bcast(schedule, {{buffer.address, buffer.bytes, buffer.where}, comm::Rank{0}});
        };
        must(world.engine().schedules().run(comm::Signature(base::Collective::kBcast).with_root(0).with_bytes(bytes),
                                            world.all(), buffer, build),
             "bcast");
    }

    static void pass_round(api::World& world, int tag) {
        const int self = world.all().rank().value;
        const int size = world.all().size();
        int sent = self;
        int got = -1;
        must(comm::sendrecv(world.engine(), world.all(), {host_operand(&sent, sizeof sent), (self + 1) % size, tag},
                            {host_operand(&got, sizeof got), (self + size - 1) % size, tag}),
             "host sendrecv");
        if (got != (self + size - 1) % size)
            fail("a wrong number has come");
    }

    // In the order of a stream, through device memory.
    void pass_memory_round(api::World& world, size_t bytes) {
        const int self = world.all().rank().value;
        const int size = world.all().size();
        const int before = (self + size - 1) % size;
        const device::Stream stream = must(device_->create_stream(), "stream");
        void* const out = must(device_->allocate(bytes), "memory");
        void* const in = must(device_->allocate(bytes), "memory");
        void* const seen = must(device_->allocate_pinned(bytes), "memory");
        must(device_->fill(out, self + 1, bytes, stream), "fill");
        must(comm::sendrecv(world.engine(), world.all(), {on(stream, out, bytes), (self + 1) % size, 5},
                            {on(stream, in, bytes), before, 5}),
             "stream sendrecv");
        must(device_->fill(out, 0, bytes, stream), "fill"); // the message was read before
        must(device_->copy(seen, in, bytes, stream), "copy");
        must(device_->synchronize(stream), "synchronize");
        for (size_t i = 0; i < bytes; ++i)
            if (static_cast<unsigned char*>(seen)[i] != before + 1)
                fail("wrong bytes have come");
        must(world.engine().memory().free(must(device_->describe(in, bytes), "describe"), in), "free");
        must(world.engine().memory().free(must(device_->describe(out, bytes), "describe"), out), "free");
        must(device_->free_pinned(seen), "free");
        must(device_->destroy_stream(stream), "destroy");
    }

    // Each lends the same memory to the next, in both worlds at once.
    void lend_round(api::World& joint) {
        if (apart())
            return; // nothing can be lent
        const device::Stream stream = must(device_->create_stream(), "stream");
        void* const memory = must(device_->allocate(kLarge), "memory");
        must(device_->fill(memory, home_value(), kLarge, stream), "fill");
        must(device_->synchronize(stream), "synchronize");
        std::vector<std::pair<api::World*, uint64_t>> lent;
        for (api::World* const world : {&joint, home_.get()}) {
            comm::Task task{.kind = comm::Task::Kind::kLend, .peer = next(*world), .tag = 6, .comm = &world->all()};
            task.operand = on(stream, memory, kLarge);
            lent.emplace_back(
                world, must(world->engine().loans().lend(task, {.kind = transfer::LoanKind::kReadOnly}), "lend"));
        }
        for (api::World* const world : {home_.get(), &joint})
            borrow(*world, stream);
        for (auto& [world, name] : lent)
            complete(*world, name);
        must(joint.engine().memory().free(must(device_->describe(memory, kLarge), "describe"), memory), "free");
        must(device_->destroy_stream(stream), "destroy");
    }

    void borrow(api::World& world, device::Stream stream) {
        transfer::Operand order;
        order.domain = transfer::Domain::kStream;
        order.stream = stream;
        comm::Arrived from;
        const auto pattern = comm::Pattern::of(world.all().group(), world.all().user_context(), before(world), 6);
        const uint64_t name = must(world.engine().loans().borrow(pattern, order, nullptr, from), "borrow");
        const auto borrowed = must(world.engine().loans().find(name), "find");
        void* const seen = must(device_->allocate_pinned(kLarge), "memory");
        must(device_->copy(seen, borrowed.address, kLarge, stream), "copy");
        must(world.engine().loans().give_back(name, {order.domain, order.stream}), "give back");
        must(device_->synchronize(stream), "synchronize");
        const auto value = static_cast<unsigned char*>(seen)[kLarge - 1];
        if (from.bytes != kLarge || value < 1 || value > 200 || static_cast<unsigned char*>(seen)[0] != value)
            fail("wrong bytes were lent");
        must(device_->free_pinned(seen), "free");
    }

    // A receive of any source, by requests.
    static void request_round(api::World& world) {
        int sent = world.all().rank().value;
        int got = -1;
        comm::Task receive{
            .kind = comm::Task::Kind::kReceive, .peer = comm::kAnySource, .tag = 7, .comm = &world.all()};
        receive.operand = host_operand(&got, sizeof got);
        comm::Task send{.kind = comm::Task::Kind::kSend, .peer = next(world), .tag = 7, .comm = &world.all()};
        send.operand = host_operand(&sent, sizeof sent);
        const uint64_t receiving = world.engine().requests().start(receive);
        complete(world, world.engine().requests().start(send));
        complete(world, receiving);
        if (got != before(world))
            fail("rank " + std::to_string(sent) + " of " + std::to_string(world.all().size()) + " got " +
                 std::to_string(got) + " by a request");
    }

    // A message of a graph that runs three times.
    void graph_round(api::World& world) {
        if (device_->channels() == nullptr || transfer::ordering_counters(*device_, settings_) == nullptr || apart())
            return; // there are no messages of graphs
        const device::Stream stream = must(device_->create_stream(), "stream");
        void* const memory = must(device_->allocate(2 * kSmall), "memory");
        auto* const out = static_cast<std::byte*>(memory);
        must(device_->fill(memory, world.all().rank().value + 1, kSmall, stream), "fill");
        must(device_->graphs()->begin_capture(stream), "capture");
        must(comm::sendrecv(world.engine(), world.all(), {in_graph(stream, out, kSmall), next(world), 8},
                            {in_graph(stream, out + kSmall, kSmall), before(world), 8}),
             "captured sendrecv");
        const device::Graph graph = must(device_->graphs()->end_capture(stream), "end capture");
        for (int run = 0; run < 3; ++run)
            must(device_->graphs()->launch(graph, stream), "launch");
        void* const seen = must(device_->allocate_pinned(kSmall), "memory");
        must(device_->copy(seen, out + kSmall, kSmall, stream), "copy");
        must(device_->synchronize(stream), "synchronize");
        if (static_cast<unsigned char*>(seen)[kSmall - 1] != before(world) + 1)
            fail("wrong bytes have come by a graph");
        must(world.engine().memory().destroy(graph), "destroy");
        must(device_->free_pinned(seen), "free");
        must(world.engine().memory().free(must(device_->describe(memory, kSmall), "describe"), memory), "free");
        must(device_->destroy_stream(stream), "destroy");
    }

    // Each half of the joint world by itself, made in it: ranks of both jobs.
    static void split(api::World& joint) {
        const int self = joint.all().rank().value;
        const uint64_t handle = must(joint.engine().communicators().split(joint.all(), self % 2, -self), "split");
        const comm::Communicator* const half = joint.engine().communicators().find(handle);
        int sent = self;
        int got = -1;
        const int size = half->size();
        const int place = half->rank().value;
        must(comm::sendrecv(joint.engine(), *half, {host_operand(&sent, sizeof sent), (place + 1) % size, 1},
                            {host_operand(&got, sizeof got), (place + size - 1) % size, 1}),
             "sendrecv in a half");
        if (got % 2 != self % 2)
            fail("a number of the other half has come");
        if (!joint.engine().communicators().free(handle))
            fail("the half cannot be freed");
    }

    void speak(api::World& joint) {
        lend_round(joint);
        request_round(joint);
        request_round(*home_);
        graph_round(joint);
        graph_round(*home_);
        split(joint);
        pass_round(joint, 1);
        pass_round(*home_, 1); // the same tag: they do not mix
        pass_memory_round(joint, 64);
        pass_memory_round(joint, kLarge);
        pass_memory_round(*home_, kLarge);
        int number = joint.all().rank().value == 0 ? 4711 : 0;
        broadcast(joint, &number, sizeof number);
        if (number != 4711)
            fail("a wrong number was broadcast");
    }

    // The ranks of the other job, which are the last ones, are told that this one has spoken.
    void tell_all(api::World& joint) {
        int word = 1;
        for (int other = home_->all().size(); other < joint.all().size(); ++other)
            must(comm::send(joint.engine(), joint.all(), host_operand(&word, sizeof word), other, 11), "tell");
    }
    // The first ones have spoken, and so have all of this job, of two ranks.
    void await_all(api::World& joint) {
        int word = 0;
        comm::Arrived arrived;
        for (int other = 0; other < joint.all().size() - home_->all().size(); ++other)
            must(comm::recv(joint.engine(), joint.all(), host_operand(&word, sizeof word), other, 11, nullptr, arrived),
                 "hear");
        pass_round(*home_, 12);
    }

    static void await_death(api::World& joint) {
        int number = 0;
        comm::Arrived arrived;
        const auto lost = comm::recv(joint.engine(), joint.all(), host_operand(&number, sizeof number),
                                     joint.all().size() - 1, 9, nullptr, arrived);
        if (lost || lost.error().status != base::Status::kPeerLost)
            fail("the other job has not been lost");
    }

    void leave(std::unique_ptr<api::World> world, bool joint) {
        must(world->leave(), "leave");
        world->stop_engine();
        if (joint)
            world->forget_peers();
        world->finish();
    }

    std::unique_ptr<api::World> home_;

  private:
    static int next(api::World& world) { return (world.all().rank().value + 1) % world.all().size(); }
    static int before(api::World& world) {
        return (world.all().rank().value + world.all().size() - 1) % world.all().size();
    }
    bool apart() const { return settings_.emulated_peer_access == "none"; } // no device reaches another
    int home_value() const { return 100 + home_->all().rank().value; }
    static void complete(api::World& world, uint64_t name) {
        comm::Requests::Ask ask{.names = {&name, 1}};
        base::Result<void> ended;
        must(world.engine().requests().complete(ask,
                                                [&](size_t, const comm::Request& done) {
                                                    if (done.send != nullptr && done.send->error())
                                                        ended = *done.send->error();
                                                }),
             "complete");
        must(std::move(ended), "request");
    }
    transfer::Operand in_graph(device::Stream stream, void* memory, size_t bytes) const {
        transfer::Operand operand = on(stream, memory, bytes);
        operand.domain = transfer::Domain::kGraph;
        return operand;
    }
    std::unique_ptr<device::Device> open() const {
        device::Options options;
        options.selector = settings_.device;
        options.emulated_memory_bytes = settings_.emulated_memory_bytes; // sparse; with room for mailboxes
        options.emulated_peer_access = settings_.emulated_peer_access;
        options.emulated_capabilities = settings_.emulated_capabilities;
        return must(device::open_device(options), "device");
    }
    transfer::Operand on(device::Stream stream, void* memory, size_t bytes) const {
        transfer::Operand operand = host_operand(memory, bytes);
        operand.where = must(device_->describe(memory, bytes), "describe");
        operand.domain = transfer::Domain::kStream;
        operand.stream = stream;
        return operand;
    }

    base::Settings settings_;
    device::RunLog runs_;
    std::unique_ptr<device::Device> device_;
    comm::ProcessEngines process_;
    uint32_t meetings_ = 0;
};

} // namespace

int main(int argc, char** argv) {
    if (argc < 4)
        return 2;
    const bool accepts = std::strcmp(argv[1], "accept") == 0;
    const std::string mode = argc > 4 ? argv[4] : "";
    const int rounds = std::atoi(argv[3]);
    Rank rank;
    Counts early;
    for (int round = 0; round < rounds; ++round) {
        auto joint = rank.meet(accepts, argv[2]);
        rank.speak(*joint);
        if (mode == "die") {
            rank.await_all(*joint);
            ::raise(SIGKILL);
        }
        if (mode == "survive") {
            rank.tell_all(*joint);
            Rank::await_death(*joint);
            Rank::pass_round(*rank.home_, 3);
        }
        rank.leave(std::move(joint), true);
        if (round == rounds / 2)
            early = counts();
    }
    const Counts late = counts();
    std::printf("met %d times; descriptors %ld and %ld, mappings %ld and %ld\n", rounds, early.descriptors,
                late.descriptors, early.mappings, late.mappings);
    rank.leave(std::move(rank.home_), false);
    return rounds < 4 || (early.descriptors == late.descriptors && late.mappings <= early.mappings + 8) ? 0 : 1;
}
