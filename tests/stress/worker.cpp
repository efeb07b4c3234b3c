#include "stress/worker.hpp"

#include "stress/complete.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <map>
#include <thread>
#include <tuple>
#include <utility>

namespace gpurun::stress {

using test::Bytes;
using test::Kind;

namespace {

size_t index_of(Kind kind) { return static_cast<size_t>(kind); }

} // namespace

Worker::Worker(int thread) : rank_(test::rank()), thread_(thread) {
    for (const Kind kind : test::kKinds) {
        outgoing_.emplace_back(kind);
        incoming_.emplace_back(kind);
    }
}

gpurun_stream Worker::domain(int number) const { return number == 0 ? GPURUN_HOST : streams_[at(number - 1)]; }

void Worker::run(const Program& program, int epoch, Moved& moved) {
    part_ = &program.epochs[at(epoch)].parts[at(thread_)];
    Place& place = g_places[thread_];
    place.epoch = epoch;
    place.call = "making a communicator";
    route_.begin((program.seed * 31 + static_cast<uint64_t>(epoch)) * 31 + static_cast<uint64_t>(thread_));
    place_buffers();
    place_captured();
    for (const Joint& each : part_->joints)
        joints_.emplace_back(each, route_.comm_for_all(each.on_own_comm, program.threads == 1));
    for (const Exchange& each : part_->exchanges)
        exchanges_.emplace_back(each, route_.comm_for_exchanges());
    for (const Row& each : part_->rows)
        rows_.emplace_back(each, route_.comm_for_exchanges());
    const std::vector<Op> all = ops();
    for (size_t i = 0; i < all.size();) {
        const size_t grouped = length_of_group(all, i);
        place.position = all[i].position;
        place.index = all[i].index;
        if (grouped > 1)
            make_group(&all[i], grouped);
        else
            make(all[i]);
        i += std::max<size_t>(grouped, 1);
    }
    route_.end();
    place.call = "gpurun_stream_synchronize";
    for (const test::Stream& stream : streams_)
        stream.synchronize();
    for (Got& got : got_)
        got.status.source = route_.from(got.status.source);
    place.call = "checking";
    check_all(moved);
    for (const Captured& captured : captured_)
        captured.check(moved);
    captured_.clear();
    for (const JointCall& each : joints_)
        each.check();
    joints_.clear();
    for (const ExchangeCall& each : exchanges_)
        each.check(moved);
    exchanges_.clear();
    for (const RowCall& each : rows_)
        each.check();
    rows_.clear();
    contents_.clear();
}

void Worker::place_buffers() {
    sent_.assign(part_->messages.size(), {});
    got_.assign(part_->receives.size(), {});
    std::vector<size_t> sends(sent_.size()), receives(got_.size());
    for (size_t i = 0; i < sent_.size(); i++)
        if (part_->messages[i].source == rank_)
            sends[i] = outgoing_[index_of(part_->messages[i].kind)].reserve(part_->messages[i].bytes);
    for (size_t i = 0; i < got_.size(); i++)
        if (part_->receives[i].rank == rank_)
            receives[i] = incoming_[index_of(part_->receives[i].kind)].reserve(part_->receives[i].room + kGuard);
    for (const Kind kind : test::kKinds) {
        outgoing_[index_of(kind)].settle();
        incoming_[index_of(kind)].settle();
    }
    for (size_t i = 0; i < sent_.size(); i++)
        if (part_->messages[i].source == rank_)
            sent_[i].buffer = outgoing_[index_of(part_->messages[i].kind)].at(sends[i]);
    for (size_t i = 0; i < got_.size(); i++)
        if (part_->receives[i].rank == rank_)
            got_[i].buffer = incoming_[index_of(part_->receives[i].kind)].at(receives[i]);
}

void Worker::place_captured() {
    std::vector<gpurun_stream> domains;
    for (int number = 0; number < kDomains; number++)
        domains.push_back(domain(number));
    for (const Capture& capture : part_->captures)
        captured_.emplace_back(capture, thread_, domains).reserve(capture_arenas_);
    capture_arenas_.settle();
    for (Captured& captured : captured_)
        captured.place(capture_arenas_);
}

std::vector<Worker::Op> Worker::ops() const {
    std::vector<Op> all;
    for (size_t i = 0; i < part_->messages.size(); i++)
        if (part_->messages[i].source == rank_)
            all.push_back({part_->messages[i].position, Op::kSend, static_cast<int>(i)});
    for (size_t i = 0; i < part_->receives.size(); i++) {
        const ReceiveWay way = part_->receives[i].way;
        if (part_->receives[i].rank == rank_ && way != ReceiveWay::kSendrecv && way != ReceiveWay::kReplace)
            all.push_back({part_->receives[i].position, Op::kReceive, static_cast<int>(i)});
    }
    for (size_t i = 0; i < part_->completions.size(); i++)
        if (part_->completions[i].rank == rank_)
            all.push_back({part_->completions[i].position, Op::kComplete, static_cast<int>(i)});
    for (size_t i = 0; i < part_->joints.size(); i++) {
        const Joint& joint = part_->joints[i];
        all.push_back({joint.position, Op::kJoint, static_cast<int>(i)});
        if (joint.form != Joint::kBlocking)
            all.push_back({joint.completion, Op::kJointEnd, static_cast<int>(i)});
    }
    for (size_t i = 0; i < part_->exchanges.size(); i++)
        all.push_back({part_->exchanges[i].position, Op::kExchange, static_cast<int>(i)});
    for (size_t i = 0; i < part_->rows.size(); i++)
        all.push_back({part_->rows[i].position, Op::kRow, static_cast<int>(i)});
    for (size_t i = 0; i < captured_.size(); i++)
        for (const Captured::Step& step : captured_[i].steps())
            all.push_back({step.position, Op::kCaptured, static_cast<int>(i), step});
    std::sort(all.begin(), all.end(), [](const Op& a, const Op& b) {
        return std::tie(a.position, a.what, a.step.what, a.step.index) <
               std::tie(b.position, b.what, b.step.what, b.step.index);
    });
    return all;
}

void Worker::make(const Op& op) {
    switch (op.what) {
    case Op::kSend: send(op.index); break;
    case Op::kReceive: receive(op.index); break;
    case Op::kComplete: complete(part_->completions[at(op.index)]); break;
    case Op::kCaptured: captured_[at(op.index)].make(op.step); break;
    case Op::kJoint: make_joint(op.index, true); break;
    case Op::kJointEnd: make_joint(op.index, false); break;
    case Op::kExchange: {
        const Exchange& exchange = part_->exchanges[at(op.index)];
        exchanges_[at(op.index)].run(domain(exchange.domain), domain(exchange.domain_of_completion), g_places[thread_]);
        break;
    }
    case Op::kRow: {
        const Row& row = part_->rows[at(op.index)];
        rows_[at(op.index)].run(domain(row.domain), domain(row.domain_of_completion), g_places[thread_]);
        break;
    }
    }
}

void Worker::make_joint(int index, bool begins) {
    const Joint& joint = part_->joints[at(index)];
    g_places[thread_].call = begins ? "a collective" : "gpurun_wait for a collective";
    if (begins)
        joints_[at(index)].begin(domain(joint.domain));
    else
        joints_[at(index)].end(domain(joint.domain_of_completion));
}

// ------------------------------------------------------------------------------------------------------- groups

bool Worker::may_be_grouped(const Op& op) const {
    if (op.what == Op::kSend)
        return part_->messages[at(op.index)].way != SendWay::kReplace;
    if (op.what != Op::kReceive)
        return false;
    const ReceiveWay way = part_->receives[at(op.index)].way;
    return way == ReceiveWay::kRecv || way == ReceiveWay::kIrecv || way == ReceiveWay::kPersistent ||
           way == ReceiveWay::kCancelled;
}

// Each rank decides for itself.
size_t Worker::length_of_group(const std::vector<Op>& ops, size_t first) const {
    constexpr uint64_t kGolden = 0x9e3779b97f4a7c15u;
    const uint64_t chance = ((static_cast<uint64_t>(ops[first].position) * 4 + at(rank_)) * kGolden) >> 32;
    const size_t most = chance % 3 != 0 ? 0 : 2 + chance / 3 % 7;
    size_t length = 0;
    while (length < most && first + length < ops.size() && may_be_grouped(ops[first + length]))
        ++length;
    return length;
}

void Worker::make_group(const Op* ops, size_t count) {
    REQUIRE_OK(gpurun_group_begin());
    behind_group_.emplace();
    for (size_t i = 0; i < count; ++i)
        make(ops[i]);
    g_places[thread_].call = "gpurun_group_end";
    const gpurun_status result = gpurun_group_end();
    if (result != GPURUN_OK && result != GPURUN_ERR_TRUNCATED)
        fail(std::string("a group failed: ") + gpurun_status_string(result) + ": " + gpurun_error_detail());
    const auto behind = std::exchange(behind_group_, std::nullopt);
    for (const auto& each : *behind)
        each();
}

void Worker::afterwards(std::function<void()> what) {
    if (behind_group_)
        behind_group_->push_back(std::move(what));
    else
        what();
}

// ------------------------------------------------------------------------------------------------------ sending

void Worker::send(int index) {
    const Message& message = part_->messages[at(index)];
    Sent& sent = sent_[at(index)];
    const gpurun_stream order = domain(message.domain);
    if (message.content % 16 == 0)
        test::delay(order, static_cast<int>(message.content / 16 % 300));
    sent.content = &contents_.emplace_back(test::pattern(message.bytes, message.content));
    uint8_t* const buffer =
        message.way == SendWay::kReplace ? got_[at(ring_receive(*part_, message))].buffer : sent.buffer;
    if (message.way == SendWay::kReplace)
        REQUIRE_OK(gpurun_memset(buffer, kEmpty, message.bytes + kGuard, order));
    REQUIRE_OK(gpurun_memcpy(buffer, sent.content->data(), message.bytes, order));
    switch (message.way) {
    case SendWay::kSend:
    case SendWay::kSsend: {
        const bool waits = message.way == SendWay::kSsend;
        g_places[thread_].call = waits ? "gpurun_ssend" : "gpurun_send";
        REQUIRE_OK((waits ? gpurun_ssend : gpurun_send)(buffer, message.bytes, GPURUN_BYTE, route_.to(message.dest),
                                                        message.tag, route_.comm(), order));
        afterwards([this, index, order] { after_send(index, order); });
        break;
    }
    case SendWay::kSendrecv:
    case SendWay::kReplace: sendrecv(index); break;
    default: start_send(index); break;
    }
}

// Memory is not lent to a rank of another node.
static bool loans_may_be_refused() { return std::getenv("GPURUN_EMULATED_NODES") != nullptr; }

void Worker::start_send(int index) {
    const Message& message = part_->messages[at(index)];
    Sent& sent = sent_[at(index)];
    const auto call = start_of(message.way);
    g_places[thread_].call = "starting a send";
    // Neither completes before it is matched.
    if (message.way == SendWay::kIssend && message.kind == test::Kind::kDevice && !behind_group_) {
        const gpurun_status lent =
            gpurun_lend(sent.buffer, message.bytes, GPURUN_LOAN_EXCLUSIVE, route_.to(message.dest), message.tag,
                        route_.comm(), domain(message.domain), &sent.request);
        if (lent != GPURUN_ERR_UNSUPPORTED || !loans_may_be_refused()) {
            REQUIRE_OK(lent);
            return;
        }
    }
    REQUIRE_OK(call(sent.buffer, message.bytes, GPURUN_BYTE, route_.to(message.dest), message.tag, route_.comm(),
                    domain(message.domain), &sent.request));
    if (message.way == SendWay::kPersistent || message.way == SendWay::kPersistentSync)
        REQUIRE_OK(gpurun_start(&sent.request));
}

void Worker::sendrecv(int index) {
    const Message& message = part_->messages[at(index)];
    const int partner = ring_receive(*part_, message);
    const Receive& receive = part_->receives[at(partner)];
    Got& got = got_[at(partner)];
    const gpurun_stream order = domain(message.domain);
    gpurun_status result = GPURUN_OK;
    if (message.way == SendWay::kReplace) {
        g_places[thread_].call = "gpurun_sendrecv_replace";
        result = gpurun_sendrecv_replace(got.buffer, message.bytes, GPURUN_BYTE, route_.to(message.dest), message.tag,
                                         route_.to(receive.source), receive.tag, route_.comm(), order, &got.status);
    } else {
        fill(partner);
        g_places[thread_].call = "gpurun_sendrecv";
        result = gpurun_sendrecv(sent_[at(index)].buffer, message.bytes, GPURUN_BYTE, route_.to(message.dest),
                                 message.tag, got.buffer, receive.room, GPURUN_BYTE, route_.to(receive.source),
                                 receive.tag, route_.comm(), order, &got.status);
        afterwards([this, index, order] { after_send(index, order); });
    }
    const bool in_group = behind_group_.has_value(); // then only the status says how the receive has ended
    afterwards([this, partner, order, result, in_group] {
        after_receive(partner, order, in_group ? got_[at(partner)].status.error : result);
    });
}

void Worker::after_send(int index, gpurun_stream end) {
    REQUIRE_OK(gpurun_memset(sent_[at(index)].buffer, kUsed, part_->messages[at(index)].bytes, end));
}

// ---------------------------------------------------------------------------------------------------- receiving

void Worker::fill(int index) {
    const Receive& receive = part_->receives[at(index)];
    REQUIRE_OK(gpurun_memset(got_[at(index)].buffer, kEmpty, receive.room + kGuard, domain(receive.domain)));
}

void Worker::receive(int index) {
    const Receive& receive = part_->receives[at(index)];
    Got& got = got_[at(index)];
    fill(index);
    switch (receive.way) {
    case ReceiveWay::kRecv: {
        g_places[thread_].call = "gpurun_recv";
        const gpurun_stream order = domain(receive.domain);
        const gpurun_status result = gpurun_recv(got.buffer, receive.room, GPURUN_BYTE, route_.to(receive.source),
                                                 receive.tag, route_.comm(), order, &got.status);
        const bool in_group = behind_group_.has_value();
        afterwards([this, index, order, result, in_group] {
            after_receive(index, order, in_group ? got_[at(index)].status.error : result);
        });
        break;
    }
    case ReceiveWay::kRetry: retry(index); break;
    case ReceiveWay::kIrecv:
    case ReceiveWay::kPersistent:
    case ReceiveWay::kCancelled: start_receive(index); break;
    default: receive_probed(index); break;
    }
}

void Worker::start_receive(int index) {
    const Receive& receive = part_->receives[at(index)];
    Got& got = got_[at(index)];
    const bool persistent = receive.way == ReceiveWay::kPersistent;
    g_places[thread_].call = "starting a receive";
    REQUIRE_OK((persistent ? gpurun_recv_init : gpurun_irecv)(got.buffer, receive.room, GPURUN_BYTE,
                                                              route_.to(receive.source), receive.tag, route_.comm(),
                                                              domain(receive.domain), &got.request));
    if (persistent)
        REQUIRE_OK(gpurun_start(&got.request));
}

void Worker::receive_probed(int index) {
    const Receive& receive = part_->receives[at(index)];
    Got& got = got_[at(index)];
    const gpurun_stream order = domain(receive.domain);
    const bool takes = receive.way != ReceiveWay::kProbe && receive.way != ReceiveWay::kIprobe;
    const bool asks = receive.way == ReceiveWay::kIprobe || receive.way == ReceiveWay::kImprobe;
    gpurun_message message{};
    gpurun_message_status probed{};
    g_places[thread_].call = "probing";
    for (int found = 0; found == 0;) {
        if (asks && takes)
            REQUIRE_OK(
                gpurun_improbe(route_.to(receive.source), receive.tag, route_.comm(), &found, &message, &probed));
        else if (asks)
            REQUIRE_OK(gpurun_iprobe(route_.to(receive.source), receive.tag, route_.comm(), &found, &probed));
        else if (takes)
            REQUIRE_OK(gpurun_mprobe(route_.to(receive.source), receive.tag, route_.comm(), &message, &probed));
        else
            REQUIRE_OK(gpurun_probe(route_.to(receive.source), receive.tag, route_.comm(), &probed));
        if (!asks)
            break;
        std::this_thread::yield();
    }
    g_places[thread_].call = "receiving what was probed";
    if (receive.way == ReceiveWay::kTakeStart) {
        REQUIRE_OK(gpurun_imrecv(got.buffer, receive.room, GPURUN_BYTE, &message, order, &got.request));
        return;
    }
    if (!takes && borrow(index))
        return;
    const bool by_name = index % 2 == 0;
    const gpurun_status result =
        takes ? gpurun_mrecv(got.buffer, receive.room, GPURUN_BYTE, &message, order, &got.status)
              : gpurun_recv(got.buffer, receive.room, GPURUN_BYTE, by_name ? probed.source : route_.to(receive.source),
                            by_name ? probed.tag : receive.tag, route_.comm(), order, &got.status);
    const bool received = result == GPURUN_OK || result == GPURUN_ERR_TRUNCATED;
    if (received &&
        (probed.source != got.status.source || probed.tag != got.status.tag || probed.bytes != got.status.bytes))
        fail("a receive took another message than its probe had described");
    after_receive(index, order, result);
}

// In place of a receive, if the message is a loan and this rank can: false if not.
bool Worker::borrow(int index) {
    const Receive& receive = part_->receives[at(index)];
    Got& got = got_[at(index)];
    const gpurun_stream order = domain(receive.domain);
    gpurun_loan loan{};
    void* lent = nullptr;
    g_places[thread_].call = "gpurun_borrow";
    const gpurun_status borrowed =
        gpurun_borrow(route_.to(receive.source), receive.tag, route_.comm(), order, &loan, &got.status);
    if (borrowed == GPURUN_ERR_LOAN || borrowed == GPURUN_ERR_UNSUPPORTED)
        return false;
    REQUIRE_OK(borrowed);
    REQUIRE_OK(gpurun_loan_buffer(loan, &lent, nullptr, nullptr));
    const bool truncated = got.status.bytes > receive.room;
    REQUIRE_OK(gpurun_memcpy(got.buffer, lent, truncated ? receive.room : got.status.bytes, order));
    REQUIRE_OK(gpurun_give_back(&loan, order));
    got.status.error = truncated ? GPURUN_ERR_TRUNCATED : GPURUN_OK;
    after_receive(index, order, got.status.error);
    return true;
}

void Worker::retry(int index) {
    const Receive& receive = part_->receives[at(index)];
    Got& got = got_[at(index)];
    const gpurun_stream order = domain(receive.domain);
    start_receive(index);
    REQUIRE_OK(gpurun_cancel(&got.request));
    gpurun_status result = gpurun_wait(&got.request, order, &got.status);
    g_places[thread_].call = "gpurun_recv, after a receive was taken back";
    if (got.status.cancelled == 1)
        result = gpurun_recv(got.buffer, receive.room, GPURUN_BYTE, route_.to(receive.source), receive.tag,
                             route_.comm(), order, &got.status);
    after_receive(index, order, result);
}

void Worker::after_receive(int index, gpurun_stream end, gpurun_status result) {
    const Receive& receive = part_->receives[at(index)];
    Got& got = got_[at(index)];
    if (got.complete)
        fail("a receive was completed twice");
    got.complete = true;
    if (got.status.error != result)
        fail("the status has another error than the call");
    if (receive.way == ReceiveWay::kCancelled)
        return; // nothing says when its buffer was filled
    if (result != GPURUN_OK && result != GPURUN_ERR_TRUNCATED)
        fail(std::string("a receive failed: ") + gpurun_status_string(result));
    got.bytes.resize(receive.room + kGuard);
    REQUIRE_OK(gpurun_memcpy(got.bytes.data(), got.buffer, got.bytes.size(), end));
}

// --------------------------------------------------------------------------------------------------- completing

void Worker::complete(const Completion& completion) {
    Completing all{completion.way, domain(completion.domain), {}, nullptr};
    for (const Started& started : completion.requests) {
        gpurun_request& request = started.is_send ? sent_[at(started.index)].request : got_[at(started.index)].request;
        if (!started.is_send && part_->receives[at(started.index)].way == ReceiveWay::kCancelled)
            REQUIRE_OK(gpurun_cancel(&request));
        all.requests.push_back(request);
    }
    all.settle = [&](size_t index, gpurun_request& request, gpurun_status result, const gpurun_message_status& status) {
        settle(completion.requests[index], request, all.end, result, status);
    };
    stress::complete(all, g_places[thread_]);
}

void Worker::settle(const Started& started, gpurun_request& request, gpurun_stream end, gpurun_status result,
                    const gpurun_message_status& status) {
    const size_t index = at(started.index);
    const bool persistent = started.is_send ? part_->messages[index].way == SendWay::kPersistent ||
                                                  part_->messages[index].way == SendWay::kPersistentSync
                                            : part_->receives[index].way == ReceiveWay::kPersistent;
    if ((request.id != 0) != persistent)
        fail("a completed request is not null, or a persistent one is");
    if (persistent)
        REQUIRE_OK(gpurun_request_free(&request));
    if (started.is_send) {
        if (result != GPURUN_OK || status.error != GPURUN_OK)
            fail(std::string("a send failed: ") + gpurun_status_string(result));
        after_send(started.index, end);
        return;
    }
    got_[index].status = status;
    after_receive(started.index, end, result);
}

// ----------------------------------------------------------------------------------------------------- checking

void Worker::check(const Receive& receive, const Got& got, const Message& message) const {
    const auto describe = [&](const char* what) {
        return std::string(what) + ": message at position " + std::to_string(message.position) + " from rank " +
               std::to_string(message.source) + ", tag " + std::to_string(message.tag) + ", " +
               std::to_string(message.bytes) + " bytes; receive at position " + std::to_string(receive.position) +
               " with room for " + std::to_string(receive.room) + " got source " + std::to_string(got.status.source) +
               ", tag " + std::to_string(got.status.tag) + ", " + std::to_string(got.status.bytes) + " bytes";
    };
    const bool cut = message.bytes > receive.room;
    if (got.status.source != message.source || got.status.tag != message.tag || got.status.bytes != message.bytes ||
        got.status.count != message.bytes || got.status.cancelled != 0)
        fail(describe("the status is not the message's"));
    if (got.status.error != (cut ? GPURUN_ERR_TRUNCATED : GPURUN_OK))
        fail(describe("truncation is not told, or told in vain"));
    Bytes expected = test::pattern(message.bytes, message.content);
    if (receive.way == ReceiveWay::kReplace && !cut) { // behind a shorter message lies what was sent
        const auto own = std::find_if(part_->messages.begin(), part_->messages.end(), [&](const Message& each) {
            return each.source == receive.rank && each.position == receive.position;
        });
        Bytes kept = test::pattern(own->bytes, own->content);
        std::copy(expected.begin(), expected.end(), kept.begin());
        expected = std::move(kept);
    }
    expected.resize(std::min(expected.size(), receive.room));
    expected.resize(receive.room + kGuard, kEmpty);
    const ptrdiff_t wrong = test::first_difference(got.bytes, expected);
    if (wrong != -1)
        fail(describe(("byte " + std::to_string(wrong) + " is wrong").c_str()));
}

void Worker::check_all(Moved& moved) {
    std::vector<size_t> order; // of the receives, as they were made
    for (size_t i = 0; i < part_->receives.size(); i++)
        if (part_->receives[i].rank == rank_)
            order.push_back(i);
    std::sort(order.begin(), order.end(),
              [&](size_t a, size_t b) { return part_->receives[a].position < part_->receives[b].position; });
    std::map<std::pair<int, int>, std::deque<const Message*>> open; // by class and source, in the order of sending
    for (const Message& message : part_->messages)
        if (message.open_class != kNone && message.dest == rank_)
            open[{message.open_class, message.source}].push_back(&message);
    for (auto& [key, messages] : open)
        std::sort(messages.begin(), messages.end(),
                  [](const Message* a, const Message* b) { return a->position < b->position; });
    for (const size_t i : order) {
        const Receive& receive = part_->receives[i];
        const Got& got = got_[i];
        if (!got.complete)
            fail("a receive was not completed");
        if (receive.way == ReceiveWay::kCancelled) {
            if (got.status.cancelled != 1 || got.status.bytes != 0)
                fail("a receive that was taken back says that it was matched");
            continue;
        }
        const Message* message = nullptr;
        if (receive.open_class == kNone) {
            message = &part_->messages[at(receive.message)];
        } else {
            auto& left = open[{receive.open_class, got.status.source}];
            if (left.empty())
                fail("rank " + std::to_string(got.status.source) + " is named for more messages than it sent");
            message = left.front();
            left.pop_front();
        }
        check(receive, got, *message);
        moved.messages++;
        moved.bytes += message->bytes;
    }
}

} // namespace gpurun::stress
