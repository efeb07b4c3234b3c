// hanging BEHAVIOUR: ranks that hang in a way that gpurun is to explain, once each has said "up". See kBehaviours.
#include <gpurun/gpurun.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int rank;
static int size;
static char buffer[1 << 20];

static void check(gpurun_status status) {
    if (status != GPURUN_OK) {
        fprintf(stderr, "%s: %s\n", gpurun_status_string(status), gpurun_error_detail());
        exit(3);
    }
}

static void say_up(void) {
    check(gpurun_barrier(GPURUN_COMM_WORLD, GPURUN_HOST));
    puts("up");
    fflush(stdout);
}

static void sleep_for_ever(void) {
    for (;;)
        pause();
}

static void recv_from(int source, int tag) {
    check(gpurun_recv(buffer, 64, GPURUN_BYTE, source, tag, GPURUN_COMM_WORLD, GPURUN_HOST, NULL));
}

static void send_to(int dest, int tag, size_t bytes) {
    check(gpurun_send(buffer, bytes, GPURUN_BYTE, dest, tag, GPURUN_COMM_WORLD, GPURUN_HOST));
}

// Each receives from the next one first.
static void cycle(void) {
    recv_from((rank + 1) % size, 7);
    send_to((rank + size - 1) % size, 7, 64);
}

static void wrong_tag(void) {
    if (rank == 0) {
        send_to(1, 8, 48);
        sleep_for_ever();
    }
    recv_from(0, 7);
}

// The one that would nearly fit is behind many that do not.
static void crowd(void) {
    if (rank == 0) {
        for (int i = 0; i < 50; ++i)
            send_to(2, 100 + i, 8);
        send_to(1, 1, 8);
        sleep_for_ever();
    }
    if (rank == 1) {
        recv_from(0, 1);
        send_to(2, 8, 24);
        sleep_for_ever();
    }
    recv_from(1, 7);
}

static void compute(void) {
    if (rank == 0)
        for (volatile int i = 0;; ++i) {
        }
    recv_from(0, 1);
}

static void wait_any(void) {
    gpurun_request requests[2];
    for (int i = 0; i < 2; ++i)
        check(gpurun_irecv(buffer + 64 * i, 64, GPURUN_BYTE, (rank + 1 + i) % size, i, GPURUN_COMM_WORLD, GPURUN_HOST,
                           &requests[i]));
    int index = 0;
    if (rank == 0) // whom the others wait for
        sleep_for_ever();
    check(gpurun_waitany(2, requests, GPURUN_HOST, &index, NULL));
}

static void wait_all(void) {
    gpurun_request requests[40];
    for (int i = 0; i < 40; ++i)
        check(gpurun_irecv(buffer + i, 1, GPURUN_BYTE, (rank + 1) % size, i, GPURUN_COMM_WORLD, GPURUN_HOST,
                           &requests[i]));
    check(gpurun_waitall(20, requests, GPURUN_HOST, NULL));
}

static void barrier(void) {
    if (rank == 2)
        sleep_for_ever();
    check(gpurun_barrier(GPURUN_COMM_WORLD, GPURUN_HOST));
}

// All but the last one.
static gpurun_comm make_rows(void) {
    gpurun_comm rows;
    check(gpurun_comm_split(GPURUN_COMM_WORLD, rank == size - 1 ? 1 : 0, 0, &rows));
    check(gpurun_comm_set_name(rows, "rows"));
    return rows;
}

static void comm_barrier(void) {
    gpurun_comm rows = make_rows();
    if (rank >= size - 2)
        sleep_for_ever();
    check(gpurun_barrier(rows, GPURUN_HOST));
}

static void wrong_comm(void) {
    gpurun_comm rows = make_rows();
    if (rank == 0)
        send_to(1, 7, 48);
    if (rank != 1)
        sleep_for_ever();
    check(gpurun_recv(buffer, 64, GPURUN_BYTE, 0, 7, rows, GPURUN_HOST, NULL));
}

static void comm_split(void) {
    gpurun_comm rows;
    if (rank == 2)
        sleep_for_ever();
    check(gpurun_comm_split(GPURUN_COMM_WORLD, 0, 0, &rows));
}

static void large_send(void) {
    if (rank == 1)
        sleep_for_ever();
    send_to(1, 3, sizeof buffer);
}

static void block(void* argument) {
    (void)argument;
    sleep_for_ever();
}

// A stream, and device memory of the buffer's size.
static gpurun_stream make_stream(void** memory) {
    gpurun_stream stream;
    check(gpurun_stream_create(&stream));
    check(gpurun_malloc(memory, sizeof buffer));
    return stream;
}

// The same; rank 0's never gets any further in its stream.
static gpurun_stream hold_rank_0(void** memory) {
    const gpurun_stream stream = make_stream(memory);
    if (rank == 0)
        check(gpurun_launch_host(stream, block, NULL));
    say_up();
    return stream;
}

// The message is matched; its sender's stream never comes to it.
static void held_stream(void) {
    void* memory = NULL;
    const gpurun_stream stream = hold_rank_0(&memory);
    if (rank == 0)
        check(gpurun_send(memory, 64, GPURUN_BYTE, 1, 2, GPURUN_COMM_WORLD, stream));
    else
        check(gpurun_recv(memory, 64, GPURUN_BYTE, 0, 2, GPURUN_COMM_WORLD, stream, NULL));
    if (rank == 0)
        sleep_for_ever();
    check(gpurun_stream_synchronize(stream));
}

// Chunks of a relay that their sender's stream does not fill.
static void relay(void) {
    void* memory = NULL;
    const gpurun_stream stream = hold_rank_0(&memory);
    if (rank == 0)
        check(gpurun_send(memory, sizeof buffer, GPURUN_BYTE, 1, 2, GPURUN_COMM_WORLD, stream));
    check(gpurun_recv(buffer, sizeof buffer, GPURUN_BYTE, 0, 2, GPURUN_COMM_WORLD, GPURUN_HOST, NULL));
}

static gpurun_graph capture_send(gpurun_stream stream, void* memory, int dest, int tag, size_t bytes) {
    gpurun_graph graph;
    check(gpurun_capture_begin(stream));
    check(gpurun_send(memory, bytes, GPURUN_BYTE, dest, tag, GPURUN_COMM_WORLD, stream));
    check(gpurun_capture_end(stream, &graph));
    return graph;
}

static gpurun_graph capture_recv(gpurun_stream stream, void* memory, int source, int tag, size_t bytes) {
    gpurun_graph graph;
    check(gpurun_capture_begin(stream));
    check(gpurun_recv(memory, bytes, GPURUN_BYTE, source, tag, GPURUN_COMM_WORLD, stream, NULL));
    check(gpurun_capture_end(stream, &graph));
    return graph;
}

// A message from rank 0 to rank 1: each one's half of it.
static gpurun_graph capture_half(gpurun_stream stream, void* memory, int tag, size_t bytes) {
    return rank == 0 ? capture_send(stream, memory, 1, tag, bytes) : capture_recv(stream, memory, 0, tag, bytes);
}

// Each runs a graph that receives from the next one, and behind it the graph that sends.
static void graph_cycle(void) {
    void* memory = NULL;
    const gpurun_stream stream = make_stream(&memory);
    const gpurun_graph send = capture_send(stream, memory, (rank + size - 1) % size, 20, 4096);
    const gpurun_graph receive = capture_recv(stream, memory, (rank + 1) % size, 20, 4096);
    say_up();
    check(gpurun_graph_launch(receive, stream));
    check(gpurun_graph_launch(send, stream));
    check(gpurun_stream_synchronize(stream));
}

// Rank 0's graph runs and runs; rank 1 has launched none. Waits for it in no call, or in one.
static void run_ahead(int calls) {
    void* memory = NULL;
    const gpurun_stream stream = make_stream(&memory);
    const gpurun_graph graph = capture_half(stream, memory, 30, 700000);
    say_up();
    if (rank == 1)
        sleep_for_ever();
    for (int run = 0; run < 5; ++run)
        check(gpurun_graph_launch(graph, stream));
    if (!calls)
        sleep_for_ever();
    check(gpurun_stream_synchronize(stream));
}
static void graph_ahead(void) { run_ahead(1); }
static void graph_silent(void) { run_ahead(0); }

// Rank 0 waits for a message that rank 1 sends once its graph has received what rank 0 would launch then.
static void graph_and_call(void) {
    void* memory = NULL;
    const gpurun_stream stream = make_stream(&memory);
    const gpurun_graph graph = capture_half(stream, memory, 40, 8);
    say_up();
    if (rank == 0)
        recv_from(1, 41);
    check(gpurun_graph_launch(graph, stream));
    check(gpurun_stream_synchronize(stream));
    send_to(0, 41, 8);
}

// Rank 0 waits for two loans, of which rank 1 has borrowed one.
static void loans(void) {
    void* memory = NULL;
    gpurun_request requests[2];
    gpurun_loan loan;
    check(gpurun_malloc(&memory, 4096));
    if (rank == 0)
        for (int i = 0; i < 2; ++i)
            check(gpurun_lend((char*)memory + 1024 * i, 1000 + i, GPURUN_LOAN_EXCLUSIVE, 1, 50 + i, GPURUN_COMM_WORLD,
                              GPURUN_HOST, &requests[i]));
    else
        check(gpurun_borrow(0, 50, GPURUN_COMM_WORLD, GPURUN_HOST, &loan, NULL));
    say_up();
    if (rank == 1)
        recv_from(0, 52);
    check(gpurun_waitall(2, requests, GPURUN_HOST, NULL));
}

static void probe(void) { check(gpurun_probe(GPURUN_ANY_SOURCE, 4, GPURUN_COMM_WORLD, NULL)); }

static void self(void) { check(gpurun_ssend(buffer, 8, GPURUN_BYTE, rank, 6, GPURUN_COMM_WORLD, GPURUN_HOST)); }

// Waits for a while, goes on when its standard input says so, and hangs again.
static void twice(void) {
    if (rank == 0) {
        getchar();
        send_to(1, 1, 8);
        getchar();
        sleep_for_ever();
    }
    recv_from(0, 1);
    puts("on");
    fflush(stdout);
    recv_from(0, 2);
}

static void* receive_in_thread(void* tag) {
    recv_from((rank + 1) % size, *(int*)tag);
    return NULL;
}

static void threads(void) {
    static int tags[2] = {11, 12};
    pthread_t others[2];
    for (int i = 0; i < 2; ++i)
        pthread_create(&others[i], NULL, receive_in_thread, &tags[i]);
    recv_from((rank + 1) % size, 10);
}

static void in_init(void) {
    if (rank == 0) {
        puts("up");
        fflush(stdout);
        sleep_for_ever();
    }
}

// All the time in short calls: asking must not keep them up.
static void busy(void) {
    for (;;)
        check(gpurun_sendrecv(buffer, 8, GPURUN_BYTE, (rank + 1) % size, 0, buffer + 64, 8, GPURUN_BYTE,
                              (rank + size - 1) % size, 0, GPURUN_COMM_WORLD, GPURUN_HOST, NULL));
}

static const struct {
    const char* name;
    void (*act)(void);
    int says_up; // by itself
} kBehaviours[] = {
    {"cycle", cycle, 0},
    {"wrong-tag", wrong_tag, 0},
    {"crowd", crowd, 0},
    {"compute", compute, 0},
    {"wait-any", wait_any, 0},
    {"wait-all", wait_all, 0},
    {"barrier", barrier, 0},
    {"comm-barrier", comm_barrier, 0},
    {"wrong-comm", wrong_comm, 0},
    {"comm-split", comm_split, 0},
    {"large-send", large_send, 0},
    {"held-stream", held_stream, 1},
    {"relay", relay, 1},
    {"graph-cycle", graph_cycle, 1},
    {"graph-ahead", graph_ahead, 1},
    {"graph-silent", graph_silent, 1},
    {"graph-and-call", graph_and_call, 1},
    {"loans", loans, 1},
    {"probe", probe, 0},
    {"self", self, 0},
    {"twice", twice, 0},
    {"threads", threads, 0},
    {"busy", busy, 0},
};

int main(int argc, char** argv) {
    const char* const name = argc > 1 ? argv[1] : "";
    rank = atoi(getenv("GPURUN_RANK"));
    if (strcmp(name, "in-init") == 0)
        in_init();
    check(gpurun_init());
    check(gpurun_comm_size(GPURUN_COMM_WORLD, &size));
    for (size_t i = 0; i < sizeof kBehaviours / sizeof kBehaviours[0]; ++i)
        if (strcmp(name, kBehaviours[i].name) == 0) {
            if (!kBehaviours[i].says_up)
                say_up();
            kBehaviours[i].act();
        }
    return gpurun_finalize() == GPURUN_OK ? 0 : 1;
}
