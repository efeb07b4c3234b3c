// One capture of a program on one rank: its calls, and the runs of the graph that comes of it.
//
// What a message must be ordered with is captured with it: its buffer is overwritten after a send, is cleared before a
// receive, and is copied aside after it. Before each run, in the stream that it is launched in, the buffers that are
// sent get new contents; after it, what was received is copied to a place of the run's own. Nobody waits in between, so
// several runs may be under way. All is checked once the streams are synchronized.
#pragma once

#include "stress/arena.hpp"
#include "stress/execute.hpp"

#include <deque>

namespace gpurun::stress {

// Asks the runtime, by all ranks together.
Capturable find_capturable();

// Memory of captures, of one thread.
struct CaptureArenas {
    CaptureArenas();
    void settle();

    std::vector<Arena> outgoing, incoming; // by kind
    Arena kept{test::Kind::kDevice};       // what a run has received
    Arena fills{test::Kind::kDevice};      // what pinned memory is overwritten with
    Arena fresh{test::Kind::kPinned}, results{test::Kind::kPinned};
};

class Captured {
  public:
    // `domains`: order domains by their number.
    Captured(const Capture& plan, int thread, std::vector<gpurun_stream> domains);
    ~Captured();
    Captured(const Captured&) = delete;
    Captured& operator=(const Captured&) = delete;

    // Between them, the arenas are settled.
    void reserve(CaptureArenas& arenas);
    void place(const CaptureArenas& arenas);

    struct Step {
        enum What { kBegin, kSend, kReceive, kCollective, kComplete, kEnd, kLaunch, kDestroy };
        int position;
        What what;
        int index;
    };
    std::vector<Step> steps() const; // this rank's
    void make(const Step& step);

    void check(Moved& moved) const; // after the last run has ended

  private:
    // Device memory from which pinned memory is overwritten.
    struct Fill {
        bool used = false;
        size_t offset = 0;
        uint8_t* buffer = nullptr;
    };
    // What a call sends, and what it receives: of messages and receives by their index, then of collectives.
    struct Out {
        bool used = false;
        test::Kind kind;
        size_t bytes;
        uint64_t content;
        size_t offset = 0, fresh_offset = 0;
        Fill fill;
        uint8_t* buffer = nullptr;
        uint8_t* fresh = nullptr; // of the first run; those of the others follow
        gpurun_request request{};
    };
    struct In {
        bool used = false;
        test::Kind kind;
        size_t room;
        size_t bytes; // of what comes
        uint64_t content;
        size_t offset = 0, kept_offset = 0, results_offset = 0;
        Fill fill;
        uint8_t* buffer = nullptr;
        uint8_t* kept = nullptr;
        uint8_t* results = nullptr; // of the first run
        gpurun_request request{};
        bool complete = false;
    };
    // What a captured function does to pinned memory, in every run.
    struct HostFill {
        uint8_t* pointer;
        int value;
        size_t bytes;
    };

    Out& out_of_collective(int index) { return outs_[plan_.messages.size() + static_cast<size_t>(index)]; }
    In& in_of_collective(int index) { return ins_[plan_.receives.size() + static_cast<size_t>(index)]; }
    gpurun_stream domain(int number) const { return domains_[static_cast<size_t>(number)]; }

    void begin();
    void send(int index);
    void start_send(int index);
    void sendrecv(int index);
    void receive(int index);
    void collective(int index);
    void complete(const Completion& completion);
    void settle(const Started& started, gpurun_request& request, gpurun_status result,
                const gpurun_message_status& status, gpurun_stream end);
    void end();
    void launch(int index);
    void gather() const;
    void destroy();

    void refuse(gpurun_status started, gpurun_request& request, gpurun_stream end) const;
    // CUDA may run the host functions of a graph one after another, in an order of its own (gpurun(7), LIMITS).
    bool may_call_host() const { return plan_.domains.size() == 1; }
    Fill fill_for(test::Kind kind, size_t bytes, CaptureArenas& arenas) const;
    void overwrite(test::Kind kind, uint8_t* pointer, const Fill& fill, int value, size_t bytes, gpurun_stream order);
    void after_send(const Out& out, gpurun_stream order) {
        overwrite(out.kind, out.buffer, out.fill, 0xa5, out.bytes, order);
    }
    void clear(const In& in, gpurun_stream order);
    void after_receive(int index, gpurun_status result, const gpurun_message_status& status, gpurun_stream order);
    void keep(In& in, gpurun_stream order);

    const Capture& plan_;
    const int rank_, thread_;
    const std::vector<gpurun_stream> domains_;
    std::vector<Out> outs_;
    std::vector<In> ins_;
    std::deque<HostFill> host_fills_; // as long as the graph runs
    std::vector<gpurun_event> events_;
    gpurun_graph graph_ = nullptr;
    gpurun_stream last_ = nullptr; // in which the graph was launched
};

} // namespace gpurun::stress
