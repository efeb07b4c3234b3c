// Rank 0 of a job whose other ranks are the test: the parts of an engine, one by one, over scripted channels.
#pragma once

#include "support/emulated_rank.hpp"
#include "support/scripted_channel.hpp"

namespace gpurun::test {

class OneRank {
  public:
    explicit OneRank(uint32_t ranks = 3, const base::Settings& settings = rank_settings(), bool has_thread = false,
                     Wrap wrap = nullptr)
        : rank_(must(platform::JobSegment::create(ranks, 2)), 0, settings, wrap), core(rank_.parts()), alarms(core),
          deferred(core, alarms), orphaned(core), failure(core, orphaned), batch(core),
          progress(core, batch, failure, deferred, orphaned), waiter(core, progress, alarms),
          background(core, progress, batch, alarms, has_thread),
          messages(core, progress, batch, waiter, alarms, failure, background),
          requests(core, progress, batch, waiter, alarms, messages, background),
          schedules(core, progress, batch, waiter, alarms, messages, failure, background), report(core, waiter),
          world(comm::kWorldId, comm::Group::of_all(ranks), base::WorldRank{0}) {
        core.add_peer(must(transfer::ShmChannel::open(device(), rank_.job, rank_.self, rank_.self, {})));
        for (uint32_t peer = 1; peer < ranks; ++peer)
            core.add_peer(std::make_unique<ScriptedChannel>(device(), base::WorldRank{peer}));
    }
    // What waits for a peer in a stream is released, and ends; what is under way fails.
    ~OneRank() {
        comm::EngineLock lock(core.mutex());
        for (uint32_t peer = 1; peer < core.size(); ++peer) {
            channel(peer).die();
            if (!core.peer(base::WorldRank{peer}).lost())
                failure.lose(core.peer(base::WorldRank{peer}));
        }
        core.matcher().for_each_posted([&](comm::Expected& each) {
            core.matcher().withdraw(each);
            static_cast<comm::PostedReceive&>(each).fail({base::Status::kFinalized, "the test is over"});
        });
        background.stop(lock);
        CHECK(static_cast<bool>(device().synchronize_all()));
        (void)progress.run();
        core.drop_peers();
        alarms.close();
    }

    device::Device& device() { return *rank_.device; }
    const platform::JobSegment& job() const { return rank_.job; }
    ScriptedChannel& channel(uint32_t peer) {
        return static_cast<ScriptedChannel&>(core.peer(base::WorldRank{peer}).channel());
    }
    // The peer has the device and the memory that the other rank has published: before it is first used. Both go after
    // this.
    void put_behind(uint32_t peer, const EmulatedRank& other) {
        rank_.see(other);
        channel(peer).peers_facts = other.facts;
    }
    // As a call does that looks, and does not wait.
    bool look() {
        const comm::EngineLock lock(core.mutex());
        return progress.run();
    }
    // How the request has ended; none while it is open.
    std::optional<base::Status> end_of(uint64_t name) {
        base::Status status = base::Status::kOk;
        const auto settle = [&](size_t, const comm::Request& done) {
            if (done.error() != nullptr)
                status = done.error()->status;
        };
        const bool done =
            must(requests.complete({{&name, 1}, comm::Order{}, comm::Requests::Need::kAll, false, true}, settle));
        return done ? std::optional(status) : std::nullopt;
    }
    // Host memory in the host's order, or in a stream's.
    transfer::Operand operand(void* address, size_t bytes, std::optional<device::Stream> stream = std::nullopt) {
        transfer::Operand made;
        made.address = static_cast<std::byte*>(address);
        made.bytes = bytes;
        if (bytes != 0)
            made.where = must(device().describe(address, bytes));
        made.domain = stream ? transfer::Domain::kStream : transfer::Domain::kHost;
        made.stream = stream.value_or(device::Stream{});
        return made;
    }

  private:
    EmulatedRank rank_;

  public:
    comm::Core core;
    comm::Alarms alarms;
    comm::DeferredFree deferred;
    comm::OrphanedLoans orphaned;
    comm::PeerFailure failure;
    comm::Batch batch;
    comm::Progress progress;
    comm::Waiter waiter;
    comm::Background background;
    comm::Messages messages;
    comm::Requests requests;
    comm::Schedules schedules;
    comm::WaitReport report;
    const comm::Communicator world;
};

} // namespace gpurun::test
