#include "plan.hpp"

#include "collective.hpp"
#include "sizes.hpp"
#include "tuning.hpp"

#include <algorithm>

namespace gpurun::bench {

namespace {

constexpr int kTurns = 5;
constexpr int kBatch = 50;           // long enough that waiting for the last one does not count
constexpr int kGraphRounds = 20;     // in a graph: long enough that what a run costs besides does not count
constexpr int kFewestRounds = 32;    // of a large size, for the same reason
constexpr int kMostFirsts = 10;      // of a turn: memory is made for each
constexpr int kLargestOverlaps = 20; // of a turn: each calibrated computation may be long
// Of calls, unless asked otherwise. A receive behind more large messages than that has to ask its sender, and waits for
// the answer: it would not be the cost of a call.
constexpr int kCalls = 32;
constexpr int kExchanged = 2; // messages each way, unless asked otherwise: the halos of a field that is cut one way
constexpr int kMostExchanged = 32; // larger windows are what bidirectional measures
// Messages of graphs up to that size have room between two ranks for so much, all graphs together, in whole pages
// (gpurun_capture_begin(3)). Others need none. Jobs of few ranks have more.
constexpr int kFewRanks = 4;
constexpr size_t largest_in_room(int ranks) { return size_t{ranks <= kFewRanks ? 512U : 64U} << 10; }
constexpr size_t graph_room(int ranks) { return size_t{ranks <= kFewRanks ? 3072U : 192U} << 10; }
constexpr size_t kGraphPage = size_t{4} << 10;
// What a graph receives is waited for by kernels, all of a window's side by side. They must leave room on a GPU, which
// may be the sender's too.
constexpr size_t kGraphWindowBytes = size_t{1} << 20;
constexpr int kGraphWindow = 4;                  // of messages that are larger: these have no more threads each
constexpr size_t kTurnBytes = size_t{512} << 20; // about as many go each way in a turn
constexpr size_t kGpuArena = size_t{1} << 30;
constexpr size_t kHostArena = size_t{128} << 20;

std::vector<size_t> sizes_of(Test test, const Options& options, bool on_gpus) {
    if (!options.sizes.empty())
        return options.sizes;
    const auto own = [&] {
        switch (test) {
        case Test::kRate: return "8";
        case Test::kExchange: return on_gpus ? "8..16M" : "8..1M";
        case Test::kCollective: return on_gpus ? "8..256M" : "8..1M";
        case Test::kCall: return "8,64K,1M";
        case Test::kFirst: return on_gpus ? "1M,64M,1G" : "1M,16M";
        case Test::kLoan: return on_gpus ? "8,1M,256M" : "8,1M";
        case Test::kOverlap: return on_gpus ? "64K..64M" : "64K..4M";
        default: return on_gpus ? "8..256M" : "8..4M";
        }
    }();
    return std::get<std::vector<size_t>>(parse_sizes(own));
}

bool has_window(Test test) {
    return test != Test::kLatency && test != Test::kCollective && test != Test::kOverlap && test != Test::kFirst &&
           test != Test::kLoan;
}

// Whether messages between the two can be read where they are.
bool maps_all(const Options& options) {
    return options.memory[0] == Memory::kDevice && options.memory[1] == Memory::kDevice;
}

// How many times `bytes` fit, at least once and at most `most` times.
int fitting(size_t total, size_t bytes, int most) {
    return static_cast<int>(std::clamp<size_t>(total / bytes, 1, static_cast<size_t>(most)));
}

// How many messages a graph may have.
int fitting_in_graph(size_t bytes, int most, int ranks) {
    if (bytes > largest_in_room(ranks))
        return most;
    const size_t pages = (bytes + kGraphPage - 1) / kGraphPage;
    return fitting(graph_room(ranks), bytes < kGraphPage ? bytes : pages * kGraphPage, most);
}

// How many collectives a graph may have. Whatever the algorithm is, two ranks send each other at most two messages each
// way, of the whole buffer or of a part for each rank; and there is scratch memory for each.
int collectives_in_graph(const Task& task) {
    const auto ranks = static_cast<size_t>(task.ranks);
    const size_t largest = largest_in_room(task.ranks);
    if (task.bytes / ranks > largest)
        return fitting(kTurnBytes, task.bytes * ranks, kGraphRounds);
    return fitting_in_graph(std::clamp<size_t>(task.bytes, 1, largest), 2 * kGraphRounds, task.ranks) / 2;
}

int rounds_in_graph(const Task& task) {
    if (task.test == Test::kCollective)
        return collectives_in_graph(task);
    return fitting_in_graph(task.bytes, kGraphRounds * task.window, task.ranks) / task.window;
}

int portions(int total, int portion) { return (total + portion - 1) / portion; }

// Round trips, exchanges or collectives: in which portions. What is validated, or copied aside, needs a buffer of its
// own for each round.
void divide(Task& task, int rounds, int buffers) {
    if (task.order == Order::kStream)
        task.batch = std::min({rounds, kBatch, buffers});
    if (task.order == Order::kGraph) {
        task.batch = std::min({rounds, std::max(rounds_in_graph(task), 1), buffers});
        if (!task.validate) // the next run would write over what is to be checked
            task.runs = portions(std::min(rounds, kBatch), task.batch);
    }
    task.samples = portions(rounds, task.batch * task.runs);
}

// How many round trips, exchanges or collectives a turn has.
int rounds_of(size_t bytes, int most) {
    return std::min(most, std::max(kFewestRounds, fitting(kTurnBytes, std::max<size_t>(bytes, 1), most)));
}

Task task_of(Test test, Order order, size_t bytes, const Options& options, size_t arena, int ranks) {
    Task task{.test = test, .order = order, .bytes = bytes, .warmup = options.warmup, .validate = options.validate};
    task.ranks = ranks;
    task.form = options.form;
    task.turns = std::min(kTurns, options.iterations);
    const int most = options.iterations / task.turns;
    const bool few = test == Test::kCall && !options.window_asked;
    int most_slots = few ? kCalls : options.window;
    if (test == Test::kExchange)
        most_slots = options.window_asked ? std::min(options.window, kMostExchanged) : kExchanged;
    int slots = fitting(arena, bytes, most_slots);
    const bool aside = order == Order::kGraph && !maps_all(options); // else what has no room stays in its buffer
    if (aside)
        slots = fitting_in_graph(bytes, slots, ranks);
    task.window = has_window(test) ? slots : 1;
    if (order == Order::kGraph)
        task.window = std::min(task.window, std::max(kGraphWindow, fitting(kGraphWindowBytes, bytes, slots)));
    if (test == Test::kLatency || test == Test::kLoan) {
        const int rounds = rounds_of(bytes, most);
        divide(task, rounds, options.validate || aside ? slots : rounds);
    } else if (test == Test::kExchange) {
        const int rounds = rounds_of(bytes, most);
        divide(task, rounds,
               options.validate || aside ? 1 : rounds); // each writes over what the one before has brought
    } else if (test == Test::kFirst) {
        task.samples = std::min(most, kMostFirsts);
    } else if (test == Test::kOverlap) {
        task.samples = fitting(kTurnBytes / 4, bytes, std::min(most, kLargestOverlaps));
    } else {
        task.samples = fitting(kTurnBytes, bytes * static_cast<size_t>(task.window), most);
    }
    return task;
}

Task collective_task(Collective collective, Order order, size_t bytes, const Options& options, size_t arena,
                     int ranks) {
    Task task{.test = Test::kCollective, .order = order, .bytes = bytes, .warmup = options.warmup};
    task.form = options.collective_form;
    task.validate = options.validate;
    task.collective = collective;
    task.in_place = collective == Collective::kBcast || (options.in_place && collective != Collective::kBarrier);
    task.ranks = ranks;
    task.turns = std::min(kTurns, options.iterations);
    const int rounds = rounds_of(bytes, options.iterations / task.turns);
    divide(task, rounds, options.validate ? 1 : rounds); // each writes over what the one before has brought
    if (options.window_asked && task.form != Form::kBlocking) {
        task.window = fitting(arena, std::max<size_t>(bytes, 1), std::min(options.window, kMostExchanged));
        task.batch = portions(task.batch, task.window) * task.window;
        task.samples = portions(rounds, task.batch);
    }
    return task;
}

void plan_collectives(const Options& options, bool on_gpus, size_t arena, int ranks, std::vector<Task>& tasks) {
    for (Collective collective : options.collectives)
        for (Order order : options.orders) {
            std::vector<size_t> sizes; // some of those asked for may come to the same
            for (size_t asked : sizes_of(Test::kCollective, options, on_gpus)) {
                const size_t bytes = whole_bytes(collective, asked, ranks);
                if (std::find(sizes.begin(), sizes.end(), bytes) != sizes.end())
                    continue;
                sizes.push_back(bytes);
                tasks.push_back(collective_task(collective, order, bytes, options, arena, ranks));
            }
        }
}

} // namespace

int Task::slots() const { return test != Test::kLatency && test != Test::kLoan ? window : validate ? batch : 1; }

size_t arena_limit(const Options& options, bool on_gpus) {
    const bool all = on_device(options.memory[0]) && on_device(options.memory[1]);
    return on_gpus && all ? kGpuArena : kHostArena;
}

std::vector<Task> plan(const Options& options, bool on_gpus, int ranks) {
    const size_t arena = arena_limit(options, on_gpus);
    std::vector<Task> tasks;
    for (Test test : options.tests) {
        if (test == Test::kCollective) {
            plan_collectives(options, on_gpus, arena, ranks, tasks);
            continue;
        }
        for (Order order : options.orders)
            if (measured_in(order, test))
                for (size_t bytes : sizes_of(test, options, on_gpus))
                    tasks.push_back(task_of(test, order, bytes, options, arena, ranks));
    }
    return tasks;
}

bool measures(Reference reference, const Task& task) {
    if (is_algorithm(reference)) {
        const auto algorithms = algorithms_of(task.collective);
        return task.test == Test::kCollective &&
               std::find(algorithms.begin(), algorithms.end(), reference) != algorithms.end();
    }
    if (is_network(reference))
        return task.order == Order::kHost &&
               (task.test == Test::kLatency || task.test == Test::kBandwidth || task.test == Test::kRate);
    if (task.test == Test::kCollective) // NCCL has no all-to-all in place
        return reference != Reference::kCopy && !(task.in_place && task.collective == Collective::kAlltoall);
    if (task.test == Test::kFirst || task.test == Test::kLoan || reference == Reference::kNcclWindow)
        return false;
    return reference == Reference::kNccl || (task.test != Test::kOverlap && task.test != Test::kCall);
}

bool both_ways(Test test) { return test == Test::kBidirectional || test == Test::kExchange || test == Test::kOverlap; }

} // namespace gpurun::bench
