// What the ranks of all nodes print, and what they read.
//
// Each stream of a rank has a pipe into gpurun's outputs, so that it is shown as on one node. Its node is told what the
// pipe has taken, and sends as much more.
#include "head.hpp"

#include <algorithm>
#include <utility>

namespace gpurun::launcher {

using node_wire::Kind;

base::Result<void> Head::connect_outputs() {
    // The early ones stay until these are there: they say why these cannot be made.
    GPURUN_ASSIGN(auto outputs, Outputs::create(*has_.loop, options_.output, static_cast<uint32_t>(ranks_.size())));
    std::vector<std::string> hosts;
    for (const auto& rank : ranks_)
        hosts.push_back(nodes_[rank->node]->host.name);
    outputs->name_hosts(std::move(hosts));
    has_.early_outputs = std::exchange(has_.outputs, std::move(outputs));
    for (uint32_t rank = 0; rank < ranks_.size(); ++rank) {
        GPURUN_ASSIGN(platform::Pipe out, platform::create_pipe());
        GPURUN_ASSIGN(platform::Pipe error, platform::create_pipe());
        has_.outputs->connect(rank, std::move(out.read_end), std::move(error.read_end), {});
        ranks_[rank]->streams[0].pipe = std::move(out.write_end);
        ranks_[rank]->streams[1].pipe = std::move(error.write_end);
        for (uint32_t number = 0; number < node_wire::kStreams; ++number) {
            Stream& stream = ranks_[rank]->streams[number];
            stream.room = platform::Watch(*has_.loop, stream.pipe.get(), [this, rank, number] { pass(rank, number); });
        }
    }
    return {};
}

bool Head::take_output(Node& node, std::string_view message) {
    const auto of = node_wire::take_front<node_wire::OutputOf>(message);
    Rank* const rank = of ? rank_of(node, of->rank) : nullptr;
    if (rank == nullptr || of->stream >= node_wire::kStreams)
        return false;
    Stream& stream = rank->streams[of->stream];
    if (stream.ends || stream.unwritten.size() + message.size() > node_wire::kOutputWindow)
        return false;
    if (!stream.pipe)
        return true; // it was under way when its reader had gone
    stream.unwritten += message;
    pass(of->rank, of->stream);
    return true;
}

bool Head::take_output_end(Node& node, std::string_view message) {
    const auto of = node_wire::message_of<node_wire::OutputOf>(message);
    Rank* const rank = of ? rank_of(node, of->rank) : nullptr;
    if (rank == nullptr || of->stream >= node_wire::kStreams)
        return false;
    rank->streams[of->stream].ends = true;
    pass(of->rank, of->stream);
    return true;
}

void Head::pass(uint32_t number, uint32_t index) {
    Stream& stream = ranks_[number]->streams[index];
    if (!stream.pipe)
        return;
    Node& node = *nodes_[ranks_[number]->node];
    const platform::Transfer written = platform::write_now(stream.pipe.get(), stream.unwritten);
    stream.unwritten.erase(0, written.bytes);
    if (written.bytes > 0)
        send(node, Kind::kOutputTaken,
             node_wire::text_of(node_wire::OutputTaken{{number, index}, static_cast<uint32_t>(written.bytes)}));
    const bool closed = written.state == platform::StreamState::kClosed;
    if (closed && !stream.ends)
        send(node, Kind::kOutputClosed, node_wire::text_of(node_wire::OutputOf{number, index}));
    if (closed || (stream.ends && stream.unwritten.empty())) {
        stream.room.stop();
        stream.pipe.reset();
        stream.unwritten.clear();
        return;
    }
    stream.room.wait_for(stream.unwritten.empty() ? platform::Ready::kNothing : platform::Ready::kWritable);
}

// Of a rank whose node has gone: what has come of it is passed on.
void Head::end_streams(uint32_t rank) {
    for (uint32_t stream = 0; stream < node_wire::kStreams; ++stream) {
        ranks_[rank]->streams[stream].ends = true;
        pass(rank, stream);
    }
}

base::Result<void> Head::connect_input() {
    for (uint32_t index = 0; index < nodes_.size(); ++index) {
        Node& node = *nodes_[index];
        bool any = false;
        for (uint32_t i = 0; i < node.count; ++i)
            any = any || options_.output.readers.has(node.first + i);
        if (!any)
            continue;
        GPURUN_ASSIGN(platform::Pipe pipe, platform::create_pipe());
        node.input = std::move(pipe.read_end);
        node.input_watch = platform::Watch(*has_.loop, node.input.get(), [this, &node] { read_input(node); });
        node.input_watch.wait_for(platform::Ready::kReadable);
        if (input_ == nullptr) {
            GPURUN_ASSIGN(input_, InputForwarder::create(*has_.loop, platform::kStandardInput));
        }
        input_->connect(index, std::move(pipe.write_end));
    }
    return {};
}

void Head::read_input(Node& node) {
    std::array<char, node_wire::kInputWindow> chunk;
    if (node.input_window == 0) {
        node.input_watch.wait_for(platform::Ready::kNothing);
        return;
    }
    const platform::Transfer got =
        platform::read_now(node.input.get(), std::span(chunk).first(static_cast<size_t>(node.input_window)));
    if (got.state == platform::StreamState::kClosed) {
        node.input_watch.stop();
        send(node, Kind::kInputEnd);
    } else if (got.bytes > 0) {
        node.input_window -= static_cast<int32_t>(got.bytes);
        send(node, Kind::kInput, {chunk.data(), got.bytes});
    }
}

// Nobody there reads any more, so the others do not wait for it.
void Head::drop_input(Node& node) {
    node.input_watch.stop();
    node.input.reset();
}

bool Head::take_input_answer(Node& node, Kind kind, std::string_view message) {
    if (!node.input)
        return kind == Kind::kInputTaken;
    if (kind == Kind::kInputClosed) {
        drop_input(node);
        return true;
    }
    const auto taken = node_wire::message_of<node_wire::Number>(message);
    if (!taken || taken->value < 0 || taken->value > node_wire::kInputWindow - node.input_window)
        return false;
    node.input_window += taken->value;
    node.input_watch.wait_for(platform::Ready::kReadable);
    return true;
}

} // namespace gpurun::launcher
