// The outputs of the ranks of one node: what they print goes to the head, which shows it (node_wire.hpp).
//
// No more of a stream is under way than its window: then its rank waits, as for any reader, until the head has passed
// some of it on. Lines are the head's matter. Runs on the event loop's thread.
#pragma once

#include "last_line.hpp"
#include "node_wire.hpp"
#include "output_options.hpp"
#include "platform/byte_stream.hpp"
#include "platform/event_loop.hpp"
#include "rank_outputs.hpp"

#include <memory>
#include <string_view>
#include <vector>

namespace gpurun::launcher {

class NodeOutputs : public RankOutputs {
  public:
    using Send = std::function<void(node_wire::Kind kind, std::string_view message)>;
    struct Terminal {
        platform::WindowSize size; // of the head's; 0: it has none
        bool only = false;         // what ranks print gets nowhere else
        std::string host = "";     // what the head calls this host
    };
    NodeOutputs(platform::EventLoop& loop, Send send, uint32_t first_rank, OutputOptions options, Terminal terminal);

    // What the head has answered. False: no head of ours says that.
    bool taken(std::string_view message);
    bool closed(std::string_view message);

    void connect(uint32_t rank, platform::UniqueFd out, platform::UniqueFd error,
                 std::function<void()> stop_writer) override;
    platform::WindowSize window_for(uint32_t rank) const override;
    void fit_terminals() override {}
    bool only_on_terminal() const override { return terminal_.only; }
    void pump(uint32_t rank) override;
    std::string last_error_line(uint32_t rank) const override;
    void say(const std::string& text) override;

    void finish() override;
    bool passed() const override;
    bool failed() const override { return false; } // the head would know
    bool reader_gone() const override { return false; }
    void close() override;

  private:
    struct Stream {
        platform::UniqueFd source;
        node_wire::OutputOf of;
        std::function<void()> stop_writer; // of a terminal, else none
        uint32_t window = node_wire::kOutputWindow;
        size_t left = SIZE_MAX; // that may still be read
        bool finishing = false;
        bool unread = false;  // nobody reads any more
        bool dropped = false; // and what was under way then has been dropped
        LastLine last;
        platform::Watch readable;
    };

    Stream* find(const node_wire::OutputOf& of);
    void add(platform::UniqueFd source, uint32_t rank, uint32_t stream, std::function<void()> stop_writer);
    void pump(Stream& stream);
    bool forward(Stream& stream);
    void drop(Stream& stream);
    void end(Stream& stream);

    platform::EventLoop& loop_;
    Send send_;
    uint32_t first_rank_;
    OutputOptions options_;
    Terminal terminal_;
    std::vector<std::unique_ptr<Stream>> streams_; // kStreams for each rank
};

} // namespace gpurun::launcher
