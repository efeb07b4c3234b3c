#include "exchange.hpp"

#include "transfer/protocol/mailbox.hpp"

#include <algorithm>

namespace gpurun::test {

using transfer::Ending;
using transfer::Operand;

namespace {

constexpr uint32_t kContext = 3;
constexpr int kTag = 7;
constexpr size_t kBehind = 32;         // bytes of the target's allocation that belong to nobody
constexpr int kBefore = 90;            // the pattern of what was there before
constexpr int64_t kIdleNs = 2'000'000; // what can be done by then is done
constexpr int kAfter = 91;             // and of what the source writes after the message

Operand make(TestRank& rank, const Half& half, size_t bytes) {
    Operand made;
    switch (half.memory) {
    case Memory::kPageable: made = rank.pageable(bytes); break;
    case Memory::kPinned: made = rank.pinned(bytes); break;
    case Memory::kDevice: made = rank.on_device(bytes); break;
    case Memory::kOrdered: made = rank.ordered(bytes); break;
    }
    return half.on_stream ? rank.on_stream(made) : made;
}

Ending ending_of(const Half& half) {
    if (half.request)
        return Ending::kByCompletion;
    return half.together ? Ending::kTogether : Ending::kInStream;
}

} // namespace

Exchange::Buffers Exchange::make_buffers(TestJob& job, const Case& what, size_t room) {
    Buffers made;
    made.source = make(job.rank(0), what.from, std::max<size_t>(what.bytes, 1));
    made.source.bytes = what.bytes;
    made.whole = make(job.rank(what.to_self ? 0 : 1), what.to, std::min(room, what.bytes) + kBehind);
    return made;
}

Exchange::Exchange(TestJob& job, const Case& what, const Mode& mode, const Buffers& buffers)
    : job_(job), what_(what), mode_(mode), from_(job.rank(0)), to_(job.rank(what.to_self ? 0 : 1)),
      source_(buffers.source), whole_(buffers.whole), target_(whole_) {
    target_.bytes = std::min(mode.room, what.bytes);
    if (mode.held_source && what.from.on_stream)
        held_source_.emplace(from_.device->real(), source_.stream);
    if (mode.held_target && what.to.on_stream)
        held_target_.emplace(to_.device->real(), target_.stream);
    from_.fill_in_order(source_, mode.pattern);
    to_.fill_in_order(whole_, kBefore);
    send_.emplace(from_.resources(), from_.peer(to_.self), source_, transfer::Envelope{kContext, kTag, what.bytes},
                  transfer::Send::Mode{ending_of(what.from), what.synchronous, nullptr});
    receive_.emplace(to_.resources(), target_, ending_of(what.to));
    to_.match = [this](transfer::Peer& source, const InterceptedChannel::Posted& message) {
        if (!called_receive_ || started_)
            return false;
        started_ = true;
        receive_->start(source, message.record, message.payload);
        return true;
    };
}

Exchange::~Exchange() {
    release();
    to_.match = nullptr;
    for (transfer::Operation* const each :
         {static_cast<transfer::Operation*>(&*send_), static_cast<transfer::Operation*>(&*receive_)})
        if (each->peer() != nullptr && !each->done()) // of a test that has failed
            each->abandon({base::Status::kInternal, "the test is over"});
}

void Exchange::release() {
    for (auto* each : {&held_source_, &held_target_})
        if (*each)
            (*each)->open();
}

transfer::Operation& Exchange::half(uint32_t rank) {
    return rank == 0 ? static_cast<transfer::Operation&>(*send_) : *receive_;
}

// ------------------------------------------------------------------------------------------------------- the steps

void Exchange::call_send() {
    sent_ = true;
    if (send_->is_request() && transfer::may_be_fused(*send_))
        send_->defer();
    else
        send_->start();
    from_.resources().exchanges.launch(); // as a call does before it gives up the lock
}

void Exchange::call_receive() {
    called_receive_ = true;
    if (to_.kept.empty()) {
        if (auto marked = receive_->set_marker(); !marked)
            receive_->fail(std::move(marked).error());
        return;
    }
    const InterceptedChannel::Posted message = std::move(to_.kept.front());
    to_.kept.pop_front();
    started_ = true;
    receive_->start(to_.peer(0), message.record, message.payload);
    to_.resources().exchanges.launch();
}

bool Exchange::call_next() {
    const bool receives_now = mode_.late_receive ? !to_.kept.empty() : true;
    if (!called_receive_ && receives_now && !dead_[1])
        call_receive();
    else if (!sent_ && !dead_[0])
        call_send();
    else
        return false;
    return true;
}

bool Exchange::complete(transfer::Operation& half, const Half& as, device::Stream stream, bool& completed) {
    if (completed || !half.enqueued())
        return false;
    if (!half.done() && as.on_stream && as.request && !half.error()) {
        if (auto done = half.complete_into(stream); !done)
            half.fail(std::move(done).error());
        half.resources().exchanges.launch();
    }
    completed = half.done();
    return completed;
}

bool Exchange::complete_any() {
    const bool sent = complete(*send_, what_.from, source_.stream, send_completed_);
    if (sent && mode_.overwrites && !send_->error() && !dead_[0])
        from_.fill_in_order(source_, kAfter);
    const bool received = complete(*receive_, what_.to, target_.stream, receive_completed_);
    return sent || received;
}

bool Exchange::step() {
    bool stepped = call_next();
    for (const auto& [from, to] : {std::pair{&from_, &to_}, std::pair{&to_, &from_}})
        if (!stepped && !dead_[from->self] && !dead_[to->self])
            stepped = job_.deliver(from->self, to->self) && (to->progress(), true);
    for (TestRank* const each : {&from_, &to_})
        if (!stepped && !dead_[each->self])
            stepped = each->progress();
    stepped = stepped || complete_any();
    steps_ += stepped ? 1 : 0;
    return stepped;
}

bool Exchange::run_until_stuck(size_t most_steps) {
    while (!over() && steps_ < most_steps)
        if (!comes_true([&] { return step(); }, kIdleNs))
            return false;
    return true;
}

void Exchange::run(size_t most_steps) {
    if (held_source_ || held_target_)
        (void)run_until_stuck(most_steps);
    while (!over() && steps_ < most_steps) {
        release();
        REQUIRE_MESSAGE(comes_true([&] { return step(); }), what_.name, ": nothing moves");
    }
}

// -------------------------------------------------------------------------------------------------------- the result

void Exchange::check() {
    REQUIRE(over());
    release();
    CHECK_MESSAGE(!send_->error(), send_->error()->detail);
    CHECK_MESSAGE(!receive_->error(), receive_->error()->detail);
    CHECK(has_come());
}

bool Exchange::has_come() {
    const std::vector<std::byte> message = TestRank::pattern(what_.bytes, mode_.pattern);
    std::vector<std::byte> expected = TestRank::pattern(whole_.bytes, kBefore);
    std::copy_n(message.begin(), target_.bytes, expected.begin());
    return to_.contents_in_order(whole_) == expected;
}

std::string Exchange::routes(const transfer::Tally& tally) {
    std::string text;
    transfer::protocols().for_each_route(
        [&](transfer::Route route, const transfer::ProtocolInfo& protocol, const transfer::RouteText& names) {
            if (const auto entry = tally.at(route); entry.messages != 0)
                text += (text.empty() ? "" : ", ") + std::string(protocol.name) + "/" + names.path + " " +
                        std::to_string(entry.messages) + " " + std::to_string(entry.bytes);
        });
    return text;
}

// ----------------------------------------------------------------------------------------------------------- deaths

void Exchange::kill(uint32_t victim) {
    const uint32_t survivor = 1 - victim;
    TestRank& alive = job_.rank(survivor);
    dead_[victim] = true;
    while (job_.deliver(victim, survivor)) {
    }
    job_.rank(victim).isolate();
    // First it is only known to be dying.
    alive.channel(victim).liveness_now = transfer::Liveness::kDying;
    (void)alive.progress();
    REQUIRE_OK(job_.segment.mark_dead(victim));
    alive.channel(victim).liveness_now = transfer::Liveness::kDead;
    (void)alive.progress();
    alive.lose(victim);
}

// A call that is made now fails, or finds the message. One whose message will not come is ended by the matcher.
void Exchange::call_alone(uint32_t survivor) {
    const base::Error died{base::Status::kPeerLost, "the other rank has died"};
    if (survivor == 0 && !sent_) {
        sent_ = true;
        send_->fail(died);
    }
    if (survivor == 1 && !called_receive_)
        call_receive();
    if (survivor == 1 && !started_)
        receive_->fail(died);
}

bool Exchange::end_alone(uint32_t survivor) {
    TestRank& alive = job_.rank(survivor);
    const Half& as = survivor == 0 ? what_.from : what_.to;
    bool completed = false;
    call_alone(survivor);
    return comes_true([&] {
        (void)alive.progress();
        (void)complete(half(survivor), as, survivor == 0 ? source_.stream : target_.stream, completed);
        return half(survivor).done();
    });
}

void Exchange::end_dead(uint32_t victim) {
    TestRank& dead = job_.rank(victim);
    REQUIRE_OK(job_.segment.mark_dead(1 - victim));
    dead.channel(1 - victim).liveness_now = transfer::Liveness::kDead;
    dead.resources().try_quiescence = [] { return transfer::Quiescence(); }; // its streams do not keep their order
    dead.release(); // also of what sleeps on what the survivor has just poisoned
    dead.lose(1 - victim);
    REQUIRE(end_alone(victim));
    release();
    REQUIRE(streams_end(victim));
}

// All edges of a dead rank are released, also those that it signals itself, as those of no other are. So its streams
// may overtake each other, and a late signal take the poison away from a stream that waits: it is put there again.
bool Exchange::streams_end(uint32_t rank) {
    const Half& as = rank == 0 ? what_.from : what_.to;
    const device::Stream stream = rank == 0 ? source_.stream : target_.stream;
    return !as.on_stream || comes_true([&] {
        if (dead_[rank])
            job_.rank(rank).release();
        return job_.rank(rank).idle(stream);
    });
}

bool Exchange::is_lost_in_stream(uint32_t rank) {
    const std::vector<device::Stream>& lost = job_.rank(rank).lost_streams;
    const device::Stream stream = rank == 0 ? source_.stream : target_.stream;
    return std::find(lost.begin(), lost.end(), stream) != lost.end();
}

} // namespace gpurun::test
