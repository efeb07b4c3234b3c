// What a call that sends and receives puts into a graph, once all of it is matched: it moves together in every run.
#include "comm/captured_starts.hpp"
#include "comm/messages.hpp"

#include <algorithm>
#include <optional>
#include <vector>

namespace gpurun::comm {

using base::Result;
using transfer::Send;

// What is received stands behind all that is sent; then the stream waits for what is sent.
Result<void> Messages::enqueue_captured(std::span<Send* const> sends, std::span<PostedReceive* const> receives) {
    std::vector<PostedReceive*> waited_for, others; // by their sources, and by nobody
    for (PostedReceive* const each : receives)
        if (each->operand().captured() && !each->done())
            (each->op().holds_up_source() ? waited_for : others).push_back(each);
    GPURUN_TRY(receive_as_sent(std::move(waited_for)));
    for (PostedReceive* const each : others)
        GPURUN_TRY(each->op().complete_into(each->operand().stream));
    for (Send* const each : sends)
        if (each->operand().captured() && !each->error())
            GPURUN_TRY(each->complete_into(each->operand().stream));
    return {};
}

// A source that waits until its message is taken may send those behind it, or let other ranks send, only then. So those
// of one source follow each other as they were sent, and wait for no other's: in the stream, or in a branch.
Result<void> Messages::receive_as_sent(std::vector<PostedReceive*> receives) {
    std::stable_sort(receives.begin(), receives.end(), [](PostedReceive* one, PostedReceive* other) {
        return one->op().serial_of_send() < other->op().serial_of_send();
    });
    struct Row {
        device::Stream stream;
        WorldRank source;
        std::optional<device::Event> start; // of a branch
        std::vector<transfer::Receive*> receives;
    };
    std::vector<Row> rows;
    for (PostedReceive* const each : receives) {
        const device::Stream stream = each->operand().stream;
        const auto found = std::find_if(rows.begin(), rows.end(), [&](const Row& row) {
            return row.stream == stream && row.source == each->source();
        });
        Row& row = found != rows.end() ? *found : rows.emplace_back(Row{stream, each->source(), {}, {}});
        row.receives.push_back(&each->op());
    }
    CapturedStarts starts(core_.resources());
    for (auto row = rows.begin(); row != rows.end(); ++row)
        if (std::any_of(rows.begin(), row, [&](const Row& before) { return before.stream == row->stream; })) {
            GPURUN_ASSIGN(row->start, starts.in(row->stream));
        }
    transfer::CapturePool& captures = core_.resources().pools.captures;
    for (const Row& row : rows) {
        device::Stream in = row.stream;
        if (row.start) {
            GPURUN_ASSIGN(in, captures.take_branch());
            GPURUN_TRY(core_.device().await_event(in, *row.start));
        }
        for (transfer::Receive* const each : row.receives)
            GPURUN_TRY(each->complete_into(in));
        if (row.start)
            GPURUN_TRY(captures.order(in, row.stream));
    }
    return {};
}

} // namespace gpurun::comm
