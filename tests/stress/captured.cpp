#include "stress/captured.hpp"

#include "stress/complete.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>

namespace gpurun::stress {

using test::Kind;
using test::kWorld;

namespace {

constexpr int kProbeTag = 0;

uint64_t content_of(uint64_t first, size_t run) { return first + run * 0x51ed2701u; }

bool can_capture(int peer, uint8_t* out = nullptr, uint8_t* in = nullptr, size_t bytes = 0) {
    const test::Stream stream;
    gpurun_graph graph = nullptr;
    REQUIRE_OK(gpurun_capture_begin(stream));
    const gpurun_status status = gpurun_sendrecv(out, bytes, GPURUN_BYTE, peer, kProbeTag, in, bytes, GPURUN_BYTE, peer,
                                                 kProbeTag, kWorld, stream, nullptr);
    REQUIRE_OK(gpurun_capture_end(stream, &graph));
    REQUIRE_OK(gpurun_graph_destroy(graph));
    if (status != GPURUN_OK && status != GPURUN_ERR_UNSUPPORTED)
        fail(std::string("a captured exchange: ") + gpurun_status_string(status));
    return status == GPURUN_OK;
}

bool said_by(int rank, bool mine) {
    int answer = mine ? 1 : 0;
    REQUIRE_OK(gpurun_bcast(&answer, 1, GPURUN_INT32, rank, kWorld, GPURUN_HOST));
    return answer == 1;
}

bool uses_events() {
    const char* const fence = std::getenv("GPURUN_FENCE");
    return fence != nullptr && std::strcmp(fence, "event") == 0;
}

} // namespace

Capturable find_capturable() {
    const int ranks = test::size(), self = test::rank();
    Capturable all{std::vector(at(ranks), std::vector<bool>(at(ranks))), true, test::has_graphs()};
    if (!all.graphs)
        return all;
    auto& pairs = all.pairs;
    for (int peer = 0; peer < ranks; peer++) // all in ascending order: nobody waits in a circle
        pairs[at(self)][at(peer)] = can_capture(peer);
    const test::Memory ordered(Kind::kOrdered, 2);
    const bool takes_ordered = !pairs[at(self)][at(self)] || can_capture(self, ordered.at(0), ordered.at(1), 1);
    for (int rank = 0; rank < ranks; rank++) {
        for (int peer = 0; peer < ranks; peer++)
            pairs[at(rank)][at(peer)] = said_by(rank, pairs[at(rank)][at(peer)]);
        all.ordered = said_by(rank, takes_ordered) && all.ordered;
    }
    for (int rank = 0; rank < ranks; rank++)
        for (int peer = 0; peer < ranks; peer++)
            if (pairs[at(rank)][at(peer)] != pairs[at(peer)][at(rank)] || (uses_events() && pairs[at(rank)][at(peer)]))
                fail("one side can capture messages that the other cannot, or both with events for fences");
    return all;
}

CaptureArenas::CaptureArenas() {
    for (const Kind kind : test::kKinds) {
        outgoing.emplace_back(kind);
        incoming.emplace_back(kind);
    }
}

void CaptureArenas::settle() {
    for (const Kind kind : test::kKinds) {
        outgoing[static_cast<size_t>(kind)].settle();
        incoming[static_cast<size_t>(kind)].settle();
    }
    kept.settle();
    fills.settle();
    fresh.settle();
    results.settle();
}

// ----------------------------------------------------------------------------------------------------- memory

Captured::Captured(const Capture& plan, int thread, std::vector<gpurun_stream> domains)
    : plan_(plan), rank_(test::rank()), thread_(thread), domains_(std::move(domains)) {
    for (const Message& message : plan.messages)
        outs_.push_back({message.source == rank_, message.kind, message.bytes, message.content});
    for (const Receive& receive : plan.receives) {
        const Message& message = plan.messages[at(receive.message)];
        ins_.push_back({receive.rank == rank_, receive.kind, receive.room, message.bytes, message.content});
        ins_.back().complete = message.refused;
    }
    for (const Collective& call : plan.collectives) {
        const bool is_root = call.root == rank_;
        outs_.push_back({!call.is_barrier && is_root, call.kind, call.bytes, call.content});
        ins_.push_back({!call.is_barrier && !is_root, call.kind, call.bytes, call.bytes, call.content});
    }
}

Captured::~Captured() {
    for (const gpurun_event event : events_)
        REQUIRE_OK(gpurun_event_destroy(event));
}

void Captured::reserve(CaptureArenas& arenas) {
    const size_t runs = plan_.launches.size();
    for (Out& out : outs_)
        if (out.used) {
            out.offset = arenas.outgoing[static_cast<size_t>(out.kind)].reserve(out.bytes, out.content % 2 == 0);
            out.fresh_offset = arenas.fresh.reserve(runs * out.bytes);
            out.fill = fill_for(out.kind, out.bytes, arenas);
        }
    for (In& in : ins_)
        if (in.used) {
            in.offset = arenas.incoming[static_cast<size_t>(in.kind)].reserve(in.room + kGuard, in.content % 3 != 0);
            in.kept_offset = arenas.kept.reserve(in.room + kGuard);
            in.results_offset = arenas.results.reserve(runs * (in.room + kGuard));
            in.fill = fill_for(in.kind, in.room + kGuard, arenas);
        }
}

Captured::Fill Captured::fill_for(Kind kind, size_t bytes, CaptureArenas& arenas) const {
    if (kind != Kind::kPinned || may_call_host())
        return {};
    return {true, arenas.fills.reserve(bytes)};
}

void Captured::place(const CaptureArenas& arenas) {
    for (Out& out : outs_)
        if (out.used) {
            out.buffer = arenas.outgoing[static_cast<size_t>(out.kind)].at(out.offset);
            out.fresh = arenas.fresh.at(out.fresh_offset);
            out.fill.buffer = out.fill.used ? arenas.fills.at(out.fill.offset) : nullptr;
            for (size_t run = 0; run < plan_.launches.size(); run++) {
                const test::Bytes bytes = test::pattern(out.bytes, content_of(out.content, run));
                std::copy(bytes.begin(), bytes.end(), out.fresh + run * out.bytes);
            }
        }
    for (In& in : ins_)
        if (in.used) {
            in.buffer = arenas.incoming[static_cast<size_t>(in.kind)].at(in.offset);
            in.kept = arenas.kept.at(in.kept_offset);
            in.results = arenas.results.at(in.results_offset);
            in.fill.buffer = in.fill.used ? arenas.fills.at(in.fill.offset) : nullptr;
        }
}

// ------------------------------------------------------------------------------------------------------ steps

std::vector<Captured::Step> Captured::steps() const {
    std::vector<Step> all{{plan_.begin, Step::kBegin, 0}, {plan_.end, Step::kEnd, 0}};
    for (size_t i = 0; i < plan_.messages.size(); i++)
        if (plan_.messages[i].source == rank_)
            all.push_back({plan_.messages[i].position, Step::kSend, static_cast<int>(i)});
    for (size_t i = 0; i < plan_.receives.size(); i++)
        if (plan_.receives[i].rank == rank_ && plan_.receives[i].way != ReceiveWay::kSendrecv)
            all.push_back({plan_.receives[i].position, Step::kReceive, static_cast<int>(i)});
    for (size_t i = 0; i < plan_.collectives.size(); i++)
        all.push_back({plan_.collectives[i].position, Step::kCollective, static_cast<int>(i)});
    for (size_t i = 0; i < plan_.completions.size(); i++)
        if (plan_.completions[i].rank == rank_)
            all.push_back({plan_.completions[i].position, Step::kComplete, static_cast<int>(i)});
    for (size_t i = 0; i < plan_.launches.size(); i++)
        all.push_back({plan_.launches[i].position, Step::kLaunch, static_cast<int>(i)});
    all.push_back({plan_.destroys[at(rank_)], Step::kDestroy, 0});
    return all;
}

void Captured::make(const Step& step) {
    switch (step.what) {
    case Step::kBegin: begin(); break;
    case Step::kSend: send(step.index); break;
    case Step::kReceive: receive(step.index); break;
    case Step::kCollective: collective(step.index); break;
    case Step::kComplete: complete(plan_.completions[at(step.index)]); break;
    case Step::kEnd: end(); break;
    case Step::kLaunch: launch(step.index); break;
    case Step::kDestroy: destroy(); break;
    }
}

void Captured::begin() {
    g_places[thread_].call = "gpurun_capture_begin";
    const gpurun_stream origin = domain(plan_.domains[0]);
    REQUIRE_OK(gpurun_capture_begin(origin));
    for (size_t i = 0; i < plan_.domains.size(); i++) // the last is for launches
        REQUIRE_OK(gpurun_event_create(&events_.emplace_back()));
    for (size_t i = 1; i < plan_.domains.size(); i++) {
        REQUIRE_OK(gpurun_event_record(events_[0], origin));
        REQUIRE_OK(gpurun_stream_wait_event(domain(plan_.domains[i]), events_[0]));
    }
}

void Captured::end() {
    g_places[thread_].call = "gpurun_capture_end";
    const gpurun_stream origin = domain(plan_.domains[0]);
    for (size_t i = 1; i < plan_.domains.size(); i++) {
        REQUIRE_OK(gpurun_event_record(events_[i], domain(plan_.domains[i])));
        REQUIRE_OK(gpurun_stream_wait_event(origin, events_[i]));
    }
    REQUIRE_OK(gpurun_capture_end(origin, &graph_));
}

void Captured::launch(int index) {
    const size_t run = at(index);
    const gpurun_stream stream = domain(plan_.launches[run].domains[at(rank_)]);
    if (plan_.launches[run].gathers)
        gather();
    g_places[thread_].call = "launching a graph";
    if (last_ != nullptr && last_ != stream)
        REQUIRE_OK(gpurun_stream_wait_event(stream, events_[0]));
    for (const Out& out : outs_)
        if (out.used)
            REQUIRE_OK(gpurun_memcpy(out.buffer, out.fresh + run * out.bytes, out.bytes, stream));
    REQUIRE_OK(gpurun_graph_launch(graph_, stream));
    for (const In& in : ins_)
        if (in.used)
            REQUIRE_OK(gpurun_memcpy(in.results + run * (in.room + kGuard), in.kept, in.room + kGuard, stream));
    REQUIRE_OK(gpurun_event_record(events_[0], stream));
    last_ = stream;
}

void Captured::gather() const {
    g_places[thread_].call = "waiting for all ranks before a launch";
    if (plan_.gather_tag == kNone) {
        REQUIRE_OK(gpurun_barrier(kWorld, GPURUN_HOST));
        return;
    }
    const int ranks = test::size(), tag = plan_.gather_tag;
    for (int distance = 1; distance < ranks; distance *= 2)
        REQUIRE_OK(gpurun_sendrecv(nullptr, 0, GPURUN_BYTE, (rank_ + distance) % ranks, tag, nullptr, 0, GPURUN_BYTE,
                                   (rank_ + ranks - distance) % ranks, tag, kWorld, GPURUN_HOST, nullptr));
}

void Captured::destroy() {
    g_places[thread_].call = "gpurun_graph_destroy";
    REQUIRE_OK(gpurun_graph_destroy(graph_));
    graph_ = nullptr;
}

// ------------------------------------------------------------------------------------------------------ calls

void Captured::send(int index) {
    const Message& message = plan_.messages[at(index)];
    const Out& out = outs_[at(index)];
    const gpurun_stream order = domain(message.domain);
    if (message.content % 16 == 0 && may_call_host())
        test::delay(order, static_cast<int>(message.content / 16 % 300));
    if (message.way == SendWay::kSendrecv) {
        sendrecv(index);
        return;
    }
    if (has_request(message.way)) {
        start_send(index);
        return;
    }
    const bool waits = message.way == SendWay::kSsend;
    g_places[thread_].call = waits ? "gpurun_ssend, captured" : "gpurun_send, captured";
    const gpurun_status status = (waits ? gpurun_ssend : gpurun_send)(out.buffer, message.bytes, GPURUN_BYTE,
                                                                      message.dest, message.tag, kWorld, order);
    gpurun_request none{};
    if (message.refused)
        refuse(status, none, order);
    else
        REQUIRE_OK(status);
    after_send(out, order);
}

void Captured::start_send(int index) {
    const Message& message = plan_.messages[at(index)];
    Out& out = outs_[at(index)];
    const auto call = start_of(message.way);
    g_places[thread_].call = "starting a captured send";
    gpurun_status status = call(out.buffer, message.bytes, GPURUN_BYTE, message.dest, message.tag, kWorld,
                                domain(message.domain), &out.request);
    if (status == GPURUN_OK && (message.way == SendWay::kPersistent || message.way == SendWay::kPersistentSync))
        status = gpurun_start(&out.request);
    if (message.refused)
        refuse(status, out.request, domain(message.domain));
    else
        REQUIRE_OK(status);
}

// A message that cannot be captured is refused when it is made or, if it was started, when it is waited for.
void Captured::refuse(gpurun_status started, gpurun_request& request, gpurun_stream end) const {
    if (started == GPURUN_OK && request.id != 0)
        started = gpurun_wait(&request, end, nullptr);
    if (started != GPURUN_ERR_UNSUPPORTED)
        fail(std::string("a message that cannot be captured: ") + gpurun_status_string(started));
    if (request.id != 0)
        REQUIRE_OK(gpurun_request_free(&request));
}

void Captured::sendrecv(int index) {
    const Message& message = plan_.messages[at(index)];
    const auto found = std::find_if(plan_.receives.begin(), plan_.receives.end(), [&](const Receive& receive) {
        return receive.rank == rank_ && receive.position == message.position;
    });
    const auto partner = static_cast<int>(found - plan_.receives.begin());
    const Out& out = outs_[at(index)];
    const In& in = ins_[at(partner)];
    const gpurun_stream order = domain(message.domain);
    clear(in, order);
    g_places[thread_].call = "gpurun_sendrecv, captured";
    gpurun_message_status status{};
    const gpurun_status result =
        gpurun_sendrecv(out.buffer, message.bytes, GPURUN_BYTE, message.dest, message.tag, in.buffer, in.room,
                        GPURUN_BYTE, found->source, found->tag, kWorld, order, &status);
    gpurun_request none{};
    if (message.refused)
        refuse(result, none, order);
    after_send(out, order);
    if (!message.refused)
        after_receive(partner, result, status, order);
}

void Captured::receive(int index) {
    const Receive& receive = plan_.receives[at(index)];
    In& in = ins_[at(index)];
    const bool refused = plan_.messages[at(receive.message)].refused;
    const gpurun_stream order = domain(receive.domain);
    clear(in, order);
    g_places[thread_].call = "a captured receive";
    gpurun_message_status got{};
    gpurun_status result = GPURUN_OK;
    if (receive.way == ReceiveWay::kRecv)
        result = gpurun_recv(in.buffer, in.room, GPURUN_BYTE, receive.source, receive.tag, kWorld, order, &got);
    else
        result = (receive.way == ReceiveWay::kPersistent ? gpurun_recv_init : gpurun_irecv)(
            in.buffer, in.room, GPURUN_BYTE, receive.source, receive.tag, kWorld, order, &in.request);
    if (result == GPURUN_OK && receive.way == ReceiveWay::kPersistent)
        result = gpurun_start(&in.request);
    if (refused)
        refuse(result, in.request, order);
    else if (receive.way == ReceiveWay::kRecv)
        after_receive(index, result, got, order);
    else
        REQUIRE_OK(result);
}

void Captured::collective(int index) {
    const Collective& call = plan_.collectives[at(index)];
    const gpurun_stream order = domain(call.domain);
    g_places[thread_].call = call.is_barrier ? "gpurun_barrier, captured" : "gpurun_bcast, captured";
    if (call.is_barrier) {
        REQUIRE_OK(gpurun_barrier(kWorld, order));
        return;
    }
    Out& out = out_of_collective(index);
    In& in = in_of_collective(index);
    if (in.used)
        clear(in, order);
    REQUIRE_OK(gpurun_bcast(in.used ? in.buffer : out.buffer, call.bytes, GPURUN_BYTE, call.root, kWorld, order));
    if (in.used)
        keep(in, order);
    else
        after_send(out, order);
}

void Captured::complete(const Completion& completion) {
    Completing all{completion.way, domain(completion.domain), {}, nullptr};
    for (const Started& started : completion.requests)
        all.requests.push_back(started.is_send ? outs_[at(started.index)].request : ins_[at(started.index)].request);
    all.settle = [&](size_t index, gpurun_request& request, gpurun_status result, const gpurun_message_status& status) {
        settle(completion.requests[index], request, result, status, all.end);
    };
    stress::complete(all, g_places[thread_]);
}

void Captured::settle(const Started& started, gpurun_request& request, gpurun_status result,
                      const gpurun_message_status& status, gpurun_stream end) {
    if (request.id != 0)
        REQUIRE_OK(gpurun_request_free(&request)); // a persistent one
    if (!started.is_send)
        after_receive(started.index, result, status, end);
    else if (result == GPURUN_OK)
        after_send(outs_[at(started.index)], end);
    else
        fail(std::string("a captured send failed: ") + gpurun_status_string(result));
}

// -------------------------------------------------------------------------------------------- around the calls

void Captured::overwrite(Kind kind, uint8_t* pointer, const Fill& fill, int value, size_t bytes, gpurun_stream order) {
    if (kind != Kind::kPinned) {
        REQUIRE_OK(gpurun_memset(pointer, value, bytes, order));
        return;
    }
    if (fill.used) {
        REQUIRE_OK(gpurun_memset(fill.buffer, value, bytes, order));
        REQUIRE_OK(gpurun_memcpy(pointer, fill.buffer, bytes, order));
        return;
    }
    const auto run = [](void* argument) {
        const auto* const work = static_cast<HostFill*>(argument);
        std::memset(work->pointer, work->value, work->bytes);
    };
    REQUIRE_OK(gpurun_launch_host(order, run, &host_fills_.emplace_back(HostFill{pointer, value, bytes})));
}

void Captured::clear(const In& in, gpurun_stream order) {
    overwrite(in.kind, in.buffer, in.fill, kEmpty, in.room + kGuard, order);
}

void Captured::keep(In& in, gpurun_stream order) {
    if (in.complete)
        fail("a captured receive was completed twice");
    in.complete = true;
    REQUIRE_OK(gpurun_memcpy(in.kept, in.buffer, in.room + kGuard, order));
}

void Captured::after_receive(int index, gpurun_status result, const gpurun_message_status& status,
                             gpurun_stream order) {
    const Receive& receive = plan_.receives[at(index)];
    const Message& message = plan_.messages[at(receive.message)];
    const gpurun_status expected = message.bytes > receive.room ? GPURUN_ERR_TRUNCATED : GPURUN_OK;
    if (result != expected || status.error != expected || status.source != message.source ||
        status.tag != message.tag || status.bytes != message.bytes || status.cancelled != 0)
        fail("a captured receive of " + std::to_string(message.bytes) + " bytes from rank " +
             std::to_string(message.source) + ", position " + std::to_string(receive.position) + ", got " +
             gpurun_status_string(result) + ", " + std::to_string(status.bytes) + " bytes from rank " +
             std::to_string(status.source) + ", tag " + std::to_string(status.tag));
    keep(ins_[at(index)], order);
}

void Captured::check(Moved& moved) const {
    for (size_t i = 0; i < ins_.size(); i++) {
        const In& in = ins_[i];
        if (!in.used)
            continue;
        if (!in.complete)
            fail("a captured receive was not completed");
        const bool refused = i < plan_.receives.size() && plan_.messages[at(plan_.receives[i].message)].refused;
        for (size_t run = 0; run < plan_.launches.size() && !refused; run++) {
            test::Bytes expected = test::pattern(in.bytes, content_of(in.content, run));
            expected.resize(std::min(expected.size(), in.room));
            expected.resize(in.room + kGuard, kEmpty);
            const uint8_t* const got = in.results + run * expected.size();
            const ptrdiff_t wrong = test::first_difference(got, expected.data(), expected.size());
            if (wrong != -1)
                fail("byte " + std::to_string(wrong) + " of captured " +
                     (i < plan_.receives.size() ? "receive " : "broadcast ") + std::to_string(i) + " (" +
                     std::to_string(in.bytes) + " bytes into " + std::to_string(in.room) + ") is wrong in run " +
                     std::to_string(run) + " of the capture at position " + std::to_string(plan_.begin));
            moved.messages++;
            moved.bytes += std::min(in.bytes, in.room);
        }
    }
}

} // namespace gpurun::stress
