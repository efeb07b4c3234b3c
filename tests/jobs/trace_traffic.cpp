// What trace.py traces: a rank 0 and a rank 1 that do everything once, in an order that tests can rely on. Ranks after
// them take part in what is collective. The first argument says what to do.
#include <gpurun/gpurun.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

namespace {

const gpurun_stream kHost = GPURUN_HOST;

void ok(gpurun_status status) {
    if (status == GPURUN_OK)
        return;
    std::fprintf(stderr, "%s: %s\n", gpurun_status_string(status), gpurun_error_detail());
    std::abort();
}

struct Rank {
    int rank = 0;
    int size = 0;
    std::vector<char> host = std::vector<char>(1 << 20);
    void* device = nullptr;
    gpurun_stream stream = nullptr;

    void send(int tag, size_t bytes) {
        ok(gpurun_send(host.data(), bytes, GPURUN_BYTE, 1, tag, GPURUN_COMM_WORLD, kHost));
    }
    void recv(int tag, size_t bytes) {
        ok(gpurun_recv(host.data(), bytes, GPURUN_BYTE, 0, tag, GPURUN_COMM_WORLD, kHost, nullptr));
    }
};

void blocking(Rank& self) {
    for (const size_t bytes : {size_t{8}, size_t{1} << 20}) {
        if (self.rank == 0) {
            self.send(1, bytes);
            ok(gpurun_send(self.device, bytes, GPURUN_BYTE, 1, 2, GPURUN_COMM_WORLD, self.stream));
            ok(gpurun_ssend(self.host.data(), bytes, GPURUN_BYTE, 1, 3, GPURUN_COMM_WORLD, kHost));
        } else if (self.rank == 1) {
            self.recv(1, bytes);
            ok(gpurun_recv(self.device, bytes, GPURUN_BYTE, 0, 2, GPURUN_COMM_WORLD, self.stream, nullptr));
            self.recv(3, bytes);
        }
    }
}

// Messages of streams that are too large to be mails, of device memory and of pinned memory, blocking and started; and
// one that comes from the host's order.
void streams(Rank& self) {
    if (self.rank > 1)
        return;
    void* pinned = nullptr;
    ok(gpurun_malloc_host(&pinned, self.host.size()));
    constexpr size_t kSizes[] = {300'000, size_t{1} << 19};
    int tag = 200;
    for (void* const memory : {self.device, pinned})
        for (const size_t bytes : kSizes) {
            ok(self.rank == 0
                   ? gpurun_send(memory, bytes, GPURUN_BYTE, 1, tag, GPURUN_COMM_WORLD, self.stream)
                   : gpurun_recv(memory, bytes, GPURUN_BYTE, 0, tag, GPURUN_COMM_WORLD, self.stream, nullptr));
            gpurun_request request;
            ok(self.rank == 0
                   ? gpurun_isend(memory, bytes, GPURUN_BYTE, 1, tag + 1, GPURUN_COMM_WORLD, self.stream, &request)
                   : gpurun_irecv(memory, bytes, GPURUN_BYTE, 0, tag + 1, GPURUN_COMM_WORLD, self.stream, &request));
            ok(gpurun_wait(&request, self.stream, nullptr));
            tag += 2;
        }
    if (self.rank == 0)
        self.send(tag, 1000);
    else
        ok(gpurun_recv(self.device, 1000, GPURUN_BYTE, 0, tag, GPURUN_COMM_WORLD, self.stream, nullptr));
    ok(gpurun_stream_synchronize(self.stream));
    ok(gpurun_free(pinned));
}

// Rank 1 has posted all of its receives before rank 0 sends anything.
void requests(Rank& self) {
    if (self.rank > 1)
        return;
    constexpr int kMany = 20, kPosted = 9;
    std::vector<gpurun_request> all(kMany);
    const int other = 1 - self.rank;
    if (self.rank == 0)
        ok(gpurun_recv(nullptr, 0, GPURUN_BYTE, other, kPosted, GPURUN_COMM_WORLD, kHost, nullptr));
    for (int i = 0; i < kMany; ++i) {
        char* const at = self.host.data() + i * 64;
        const auto start = self.rank == 0
                               ? gpurun_isend(at, 64, GPURUN_BYTE, other, 10 + i, GPURUN_COMM_WORLD, kHost, &all[i])
                               : gpurun_irecv(at, 64, GPURUN_BYTE, other, 10 + i, GPURUN_COMM_WORLD, kHost, &all[i]);
        ok(start);
    }
    if (self.rank == 1)
        ok(gpurun_send(nullptr, 0, GPURUN_BYTE, other, kPosted, GPURUN_COMM_WORLD, kHost));
    ok(gpurun_waitall(kMany, all.data(), kHost, nullptr));
}

void wildcards(Rank& self) {
    if (self.rank == 0) {
        self.send(40, 100);
        self.send(41, 100);
        self.send(42, 200);
    } else if (self.rank == 1) {
        gpurun_message_status status;
        ok(gpurun_recv(self.host.data(), 100, GPURUN_BYTE, GPURUN_ANY_SOURCE, GPURUN_ANY_TAG, GPURUN_COMM_WORLD, kHost,
                       &status));
        gpurun_message message;
        ok(gpurun_mprobe(GPURUN_ANY_SOURCE, 41, GPURUN_COMM_WORLD, &message, &status));
        ok(gpurun_mrecv(self.host.data(), 100, GPURUN_BYTE, &message, kHost, &status));
        if (gpurun_recv(self.host.data(), 50, GPURUN_BYTE, 0, 42, GPURUN_COMM_WORLD, kHost, &status) !=
            GPURUN_ERR_TRUNCATED)
            std::abort();
    }
}

// In a communicator with a name, and in one without.
void communicators(Rank& self) {
    for (const char* const name : {"rows", ""}) {
        gpurun_comm comm;
        ok(gpurun_comm_dup(GPURUN_COMM_WORLD, &comm));
        ok(gpurun_comm_set_name(comm, name));
        if (self.rank == 0)
            ok(gpurun_send(self.host.data(), 8, GPURUN_BYTE, 1, 70, comm, kHost));
        else if (self.rank == 1)
            ok(gpurun_recv(self.host.data(), 8, GPURUN_BYTE, 0, 70, comm, kHost, nullptr));
        ok(gpurun_barrier(comm, kHost));
        ok(gpurun_comm_free(&comm));
    }
}

void collectives(Rank& self) {
    ok(gpurun_bcast(self.host.data(), 1000, GPURUN_BYTE, 0, GPURUN_COMM_WORLD, kHost));
    ok(gpurun_barrier(GPURUN_COMM_WORLD, self.stream));
}

// A message from rank 0 to rank 1, in a graph.
void run_message(Rank& self, size_t bytes, int tag, int runs) {
    if (self.rank > 1)
        return;
    gpurun_graph graph;
    ok(gpurun_capture_begin(self.stream));
    ok(self.rank == 0 ? gpurun_send(self.device, bytes, GPURUN_BYTE, 1, tag, GPURUN_COMM_WORLD, self.stream)
                      : gpurun_recv(self.device, bytes, GPURUN_BYTE, 0, tag, GPURUN_COMM_WORLD, self.stream, nullptr));
    ok(gpurun_capture_end(self.stream, &graph));
    for (int run = 0; run < runs; ++run)
        ok(gpurun_graph_launch(graph, self.stream));
    ok(gpurun_stream_synchronize(self.stream));
    ok(gpurun_graph_destroy(graph));
}

void captured(Rank& self) { run_message(self, 64, 50, 1); }

void many_runs(Rank& self) { run_message(self, 8, 310, 200); }

// A graph of messages of every kind, run five times.
constexpr int kGraphRuns = 5;
constexpr size_t kLong = 600'000; // stays with its source
void graphs(Rank& self) {
    if (self.rank > 1)
        return;
    void* unexportable = nullptr;
    ok(gpurun_malloc_async(&unexportable, kLong, self.stream));
    ok(gpurun_stream_synchronize(self.stream));
    const int other = 1 - self.rank;
    const auto exchange = [&](void* memory, size_t bytes, int tag) {
        ok(self.rank == 0
               ? gpurun_send(memory, bytes, GPURUN_BYTE, other, tag, GPURUN_COMM_WORLD, self.stream)
               : gpurun_recv(memory, bytes, GPURUN_BYTE, other, tag, GPURUN_COMM_WORLD, self.stream, nullptr));
    };
    const auto start = [&](void* memory, size_t bytes, int tag) {
        gpurun_request request;
        ok(self.rank == 0
               ? gpurun_isend(memory, bytes, GPURUN_BYTE, other, tag, GPURUN_COMM_WORLD, self.stream, &request)
               : gpurun_irecv(memory, bytes, GPURUN_BYTE, other, tag, GPURUN_COMM_WORLD, self.stream, &request));
        return request;
    };
    void* const beside = static_cast<char*>(self.device) + (640 << 10); // two are under way at once
    gpurun_graph graph;
    ok(gpurun_capture_begin(self.stream));
    exchange(self.device, 64, 300);
    exchange(self.device, 65536, 301);
    exchange(self.device, kLong, 302);
    exchange(unexportable, kLong, 303);
    gpurun_request requests[] = {start(beside, 5000, 304), start(self.device, kLong, 305)};
    ok(gpurun_waitall(2, requests, self.stream, nullptr));
    if (self.rank == 0)
        ok(gpurun_ssend(self.device, 8, GPURUN_BYTE, 1, 306, GPURUN_COMM_WORLD, self.stream));
    else
        exchange(self.device, 8, 306);
    ok(gpurun_capture_end(self.stream, &graph));
    for (int run = 0; run < kGraphRuns; ++run)
        ok(gpurun_graph_launch(graph, self.stream));
    ok(gpurun_stream_synchronize(self.stream));
    ok(gpurun_graph_destroy(graph));
    ok(gpurun_free_async(unexportable, self.stream));
}

// Rank 1's run waits for a message of rank 0, which dies after the first.
void graph_death(Rank& self) {
    gpurun_graph graph;
    ok(gpurun_capture_begin(self.stream));
    ok(self.rank == 0 ? gpurun_send(self.device, 8, GPURUN_BYTE, 1, 320, GPURUN_COMM_WORLD, self.stream)
                      : gpurun_recv(self.device, 8, GPURUN_BYTE, 0, 320, GPURUN_COMM_WORLD, self.stream, nullptr));
    ok(gpurun_capture_end(self.stream, &graph));
    ok(gpurun_graph_launch(graph, self.stream));
    ok(gpurun_stream_synchronize(self.stream));
    ok(gpurun_barrier(GPURUN_COMM_WORLD, kHost));
    if (self.rank == 0)
        ::kill(::getpid(), SIGKILL);
    ok(gpurun_graph_launch(graph, self.stream));
    if (gpurun_stream_synchronize(self.stream) != GPURUN_ERR_PEER_LOST)
        std::abort();
    std::_Exit(3);
}

// Small messages of device memory that are started together.
void window(Rank& self) {
    constexpr int kMany = 20;
    std::vector<gpurun_request> all(kMany);
    for (int i = 0; i < kMany && self.rank < 2; ++i) {
        char* const at = static_cast<char*>(self.device) + i * 64;
        ok(self.rank == 0 ? gpurun_isend(at, 64, GPURUN_BYTE, 1, 100 + i, GPURUN_COMM_WORLD, kHost, &all[i])
                          : gpurun_irecv(at, 64, GPURUN_BYTE, 0, 100 + i, GPURUN_COMM_WORLD, kHost, &all[i]));
    }
    if (self.rank < 2)
        ok(gpurun_waitall(kMany, all.data(), kHost, nullptr));
}

// Rank 0 sends behind a graph that waits for rank 1's, which is launched when rank 1 has matched the messages.
void held(Rank& self) {
    if (self.rank > 1)
        return;
    gpurun_graph graph;
    gpurun_stream beside;
    ok(gpurun_stream_create(&beside));
    ok(gpurun_capture_begin(self.stream));
    ok(self.rank == 1 ? gpurun_send(self.device, 64, GPURUN_BYTE, 0, 90, GPURUN_COMM_WORLD, self.stream)
                      : gpurun_recv(self.device, 64, GPURUN_BYTE, 1, 90, GPURUN_COMM_WORLD, self.stream, nullptr));
    ok(gpurun_capture_end(self.stream, &graph));
    char* const other = static_cast<char*>(self.device) + 4096;
    constexpr size_t kLarge = 1 << 19;
    char* const large = static_cast<char*>(self.device) + kLarge;
    if (self.rank == 0) {
        ok(gpurun_graph_launch(graph, self.stream));
        ok(gpurun_send(other, 64, GPURUN_BYTE, 1, 91, GPURUN_COMM_WORLD, self.stream));
        ok(gpurun_send(large, kLarge, GPURUN_BYTE, 1, 93, GPURUN_COMM_WORLD, self.stream));
        self.send(92, 8);
    } else {
        ok(gpurun_recv(other, 64, GPURUN_BYTE, 0, 91, GPURUN_COMM_WORLD, beside, nullptr));
        ok(gpurun_recv(large, kLarge, GPURUN_BYTE, 0, 93, GPURUN_COMM_WORLD, beside, nullptr));
        self.recv(92, 8);
        ok(gpurun_graph_launch(graph, self.stream));
    }
    ok(gpurun_stream_synchronize(self.stream));
    ok(gpurun_stream_synchronize(beside));
    ok(gpurun_graph_destroy(graph));
    ok(gpurun_stream_destroy(beside));
}

void threads(Rank& self) {
    constexpr int kThreads = 4;
    constexpr int kEach = 50;
    std::vector<std::thread> all;
    for (int t = 0; t < kThreads && self.rank < 2; ++t)
        all.emplace_back([&self, t] {
            char byte = 0;
            for (int i = 0; i < kEach; ++i)
                ok(self.rank == 0 ? gpurun_send(&byte, 1, GPURUN_BYTE, 1, 100 + t, GPURUN_COMM_WORLD, kHost)
                                  : gpurun_recv(&byte, 1, GPURUN_BYTE, 0, 100 + t, GPURUN_COMM_WORLD, kHost, nullptr));
        });
    for (std::thread& each : all)
        each.join();
}

// Rank 1 waits for a message when rank 0 dies.
void death(Rank& self) {
    if (self.rank == 0) {
        self.send(60, 8);
        ok(gpurun_recv(self.host.data(), 8, GPURUN_BYTE, 1, 61, GPURUN_COMM_WORLD, kHost, nullptr));
        ::kill(::getpid(), SIGKILL);
    } else if (self.rank == 1) {
        self.recv(60, 8);
        ok(gpurun_send(self.host.data(), 8, GPURUN_BYTE, 0, 61, GPURUN_COMM_WORLD, kHost));
        if (gpurun_recv(self.host.data(), 8, GPURUN_BYTE, 0, 62, GPURUN_COMM_WORLD, kHost, nullptr) !=
            GPURUN_ERR_PEER_LOST)
            std::abort();
        std::_Exit(3);
    }
}

// Waits for a message that does not come, and says so once the receive has started.
void interrupted(Rank& self) {
    if (self.rank != 0)
        ::pause();
    gpurun_request request;
    ok(gpurun_irecv(self.host.data(), 8, GPURUN_BYTE, 1, 70, GPURUN_COMM_WORLD, kHost, &request));
    std::puts("waits");
    std::fflush(stdout);
    (void)gpurun_wait(&request, kHost, nullptr);
}

} // namespace

int main(int argc, char** argv) {
    Rank self;
    ok(gpurun_init());
    ok(gpurun_comm_rank(GPURUN_COMM_WORLD, &self.rank));
    ok(gpurun_comm_size(GPURUN_COMM_WORLD, &self.size));
    ok(gpurun_malloc(&self.device, self.host.size()));
    ok(gpurun_stream_create(&self.stream));
    const std::string what = argc > 1 ? argv[1] : "";
    constexpr struct {
        const char* name;
        void (*run)(Rank&);
    } kThemes[] = {{"blocking", blocking},
                   {"requests", requests},
                   {"wildcards", wildcards},
                   {"streams", streams},
                   {"collectives", collectives},
                   {"captured", captured},
                   {"communicators", communicators},
                   {"graphs", graphs},
                   {"many-runs", many_runs},
                   {"graph-death", graph_death},
                   {"held", held},
                   {"window", window},
                   {"threads", threads},
                   {"death", death},
                   {"interrupted", interrupted}};
    bool known = false;
    for (const auto& theme : kThemes)
        if (what == theme.name) {
            known = true;
            theme.run(self);
        }
    if (!known)
        return 2;
    ok(gpurun_stream_synchronize(self.stream));
    ok(gpurun_stream_destroy(self.stream));
    ok(gpurun_free(self.device));
    ok(gpurun_finalize());
    return 0;
}
