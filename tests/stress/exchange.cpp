#include "stress/exchange.hpp"

#include "stress/arena.hpp"
#include "stress/complete.hpp"
#include "stress/random.hpp"

#include <algorithm>
#include <string>

namespace gpurun::stress {

namespace {

bool may_be(gpurun_status result) { return result == GPURUN_OK || result == GPURUN_ERR_TRUNCATED; }

} // namespace

ExchangeCall::ExchangeCall(const Exchange& exchange, gpurun_comm comm) : exchange_(exchange), comm_(comm) {
    const int rank = test::rank();
    for (size_t i = 0; i < exchange.transfers.size(); i++) {
        const Exchange::Transfer& each = exchange.transfers[i];
        const int index = static_cast<int>(i);
        if (each.source == rank)
            halves_.push_back({&each, index, true, std::make_unique<test::Memory>(exchange.kind, each.bytes), {}, {}});
        if (each.dest == rank)
            halves_.push_back(
                {&each, index, false, std::make_unique<test::Memory>(exchange.kind, each.room + kGuard), {}, {}});
    }
    if (exchange.order == Exchange::kReceivesFirst)
        std::stable_partition(halves_.begin(), halves_.end(), [](const Half& half) { return !half.is_send; });
    if (exchange.order == Exchange::kShuffled) {
        Random random(exchange.content + static_cast<uint64_t>(rank));
        random.shuffle(halves_);
    }
    requests_.resize(halves_.size());
}

test::Bytes ExchangeCall::content(const Half& half, int turn) const {
    return test::pattern(half.transfer->bytes, exchange_.content + static_cast<uint64_t>(half.index * 64 + turn));
}

void ExchangeCall::run(gpurun_stream start, gpurun_stream end, Place& place) {
    if (halves_.empty())
        return;
    const bool persistent = exchange_.form == Exchange::kStartall;
    for (int turn = 0; turn < exchange_.turns; turn++) {
        place.call = "preparing an exchange";
        fill(start, turn);
        if (persistent && turn == 0)
            for (size_t i = 0; i < halves_.size(); i++)
                REQUIRE_OK(start_one(halves_[i], start, &requests_[i]));
        place.call = "starting an exchange";
        this->start(start);
        complete(end, place, turn);
        if (exchange_.domain != exchange_.domain_of_completion &&
            end != GPURUN_HOST) { // the next turn fills the buffers
            place.call = "gpurun_stream_synchronize";
            REQUIRE_OK(gpurun_stream_synchronize(end));
        }
    }
    if (persistent)
        for (gpurun_request& each : requests_)
            REQUIRE_OK(gpurun_request_free(&each));
}

void ExchangeCall::fill(gpurun_stream order, int turn) {
    for (Half& half : halves_)
        if (half.is_send) {
            const test::Bytes& bytes = contents_.emplace_back(content(half, turn));
            REQUIRE_OK(gpurun_memcpy(half.memory->get(), bytes.data(), bytes.size(), order));
        } else {
            REQUIRE_OK(gpurun_memset(half.memory->get(), kEmpty, half.transfer->room + kGuard, order));
            half.got.emplace_back(half.transfer->room + kGuard);
        }
}

// With one tag for all, each receive takes the message that it is meant for only if both sides keep the order.
gpurun_status ExchangeCall::start_one(const Half& half, gpurun_stream order, gpurun_request* request) const {
    const Exchange::Transfer& each = *half.transfer;
    const int tag = exchange_.order == Exchange::kShuffled ? half.index : 0;
    const bool persistent = exchange_.form == Exchange::kStartall;
    if (half.is_send)
        return (persistent ? gpurun_send_init : gpurun_isend)(half.memory->get(), each.bytes, GPURUN_BYTE, each.dest,
                                                              tag, comm_, order, request);
    return (persistent ? gpurun_recv_init : gpurun_irecv)(half.memory->get(), each.room, GPURUN_BYTE, each.source, tag,
                                                          comm_, order, request);
}

void ExchangeCall::start(gpurun_stream order) {
    if (exchange_.form == Exchange::kStartall) {
        REQUIRE_OK(gpurun_startall(requests_.size(), requests_.data()));
        return;
    }
    if (exchange_.form == Exchange::kGroup)
        REQUIRE_OK(gpurun_group_begin());
    for (size_t i = 0; i < halves_.size(); i++)
        REQUIRE_OK(start_one(halves_[i], order, &requests_[i]));
    if (exchange_.form == Exchange::kGroup)
        REQUIRE_OK(gpurun_group_end());
}

// What only some of them are waited for first is no series that is completed directly, as far as the rest goes.
void ExchangeCall::complete(gpurun_stream order, Place& place, int turn) {
    const auto settle = [&](size_t first) {
        return [this, first, order](size_t index, gpurun_request&, gpurun_status result,
                                    const gpurun_message_status& status) {
            if (!may_be(result) || status.error != result)
                fail("a request of an exchange failed");
            take(halves_[first + index], order, status);
        };
    };
    const size_t half = exchange_.in_two && turn % 2 == 1 ? requests_.size() / 2 : 0;
    for (const auto& [first, last] : {std::pair{size_t{0}, half}, std::pair{half, requests_.size()}}) {
        if (first == last)
            continue;
        Completing some{
            exchange_.way,
            order,
            {requests_.begin() + static_cast<ptrdiff_t>(first), requests_.begin() + static_cast<ptrdiff_t>(last)},
            settle(first)};
        stress::complete(some, place);
    }
}

void ExchangeCall::take(Half& half, gpurun_stream order, const gpurun_message_status& status) {
    if (half.is_send) {
        REQUIRE_OK(gpurun_memset(half.memory->get(), kUsed, half.transfer->bytes, order));
        return;
    }
    half.status.push_back(status);
    REQUIRE_OK(gpurun_memcpy(half.got.back().data(), half.memory->get(), half.got.back().size(), order));
}

void ExchangeCall::check(Moved& moved) const {
    for (const Half& half : halves_)
        for (size_t turn = 0; turn < half.got.size(); turn++) {
            const Exchange::Transfer& each = *half.transfer;
            test::Bytes expected = content(half, static_cast<int>(turn));
            expected.resize(std::min(each.bytes, each.room));
            expected.resize(each.room + kGuard, kEmpty);
            const gpurun_message_status& status = half.status.at(turn);
            const gpurun_status ended = each.bytes > each.room ? GPURUN_ERR_TRUNCATED : GPURUN_OK;
            moved.messages++;
            moved.bytes += each.bytes;
            const auto wrong = test::first_difference(half.got[turn], expected);
            if (wrong != -1 || status.source != each.source || status.bytes != each.bytes || status.error != ended)
                fail("an exchange at position " + std::to_string(exchange_.position) + " in form " +
                     std::to_string(exchange_.form) + ", turn " + std::to_string(turn) + ", message " +
                     std::to_string(half.index) + " from rank " + std::to_string(each.source) + ", " +
                     std::to_string(each.bytes) + " bytes: byte " + std::to_string(wrong) + " is wrong, or its status");
        }
}

} // namespace gpurun::stress
