#include "session.hpp"

#include "call.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace gpurun::bench {

namespace {

[[noreturn]] void fail_to_write(const std::string& path) {
    std::fprintf(stderr, "gpurun-perf: cannot write %s: %s\n", path.c_str(), std::strerror(errno));
    gpurun_abort(1);
}

// Before anything is measured: nobody wants to hear of it afterwards. What is in the file stays until then.
void expect_writable(const std::string& path) {
    std::FILE* file = std::fopen(path.c_str(), "a");
    if (file == nullptr)
        fail_to_write(path);
    std::fclose(file);
}

void write_file(const std::string& path, const std::string& text) {
    std::FILE* file = std::fopen(path.c_str(), "w");
    if (file == nullptr)
        fail_to_write(path);
    const bool written = std::fwrite(text.data(), 1, text.size(), file) == text.size();
    if (std::fclose(file) != 0 || !written)
        fail_to_write(path);
}

void print(const std::string& text) {
    if (std::fputs(text.c_str(), stdout) < 0 || std::fflush(stdout) != 0)
        fail_to_write("standard output");
}

size_t largest_arena(const std::vector<Task>& tasks) {
    size_t largest = 0;
    for (const Task& task : tasks)
        largest = std::max(largest, task.bytes * static_cast<size_t>(task.slots()));
    return largest;
}

void meet_all() { CALL(gpurun_barrier(GPURUN_COMM_WORLD, GPURUN_HOST)); }

} // namespace

Session::Session(const Options& options)
    : pair_(Pair::of_this_rank()), devices_(all_devices(pair_)),
      tasks_(plan(options, devices_[0].kind == GPURUN_DEVICE_CUDA)),
      compute_(devices_[static_cast<size_t>(pair_.rank())]) {
    report_.options = options;
    report_.machine = describe(pair_, devices_);
    if (pair_.rank() == 0 && !options.plot.empty())
        expect_writable(options.plot);
    const Ground ground{pair_, options, devices_[static_cast<size_t>(pair_.rank())], largest_arena(tasks_), compute_};
    entrants_.push_back({nullptr, pair_.alone() ? nullptr : make_gpurun(ground)});
    for (const Reference& reference : report_.options.against)
        if (enters(reference))
            admit(reference, ground);
}

// Whether the reference can be measured here; all ranks agree.
bool Session::enters(Reference reference) {
    if (reference == Reference::kCopy)
        return true;
    std::string reason = first_text(pair_, why_not_nccl(report_.options, devices_[static_cast<size_t>(pair_.rank())]));
    if (reason.empty() && any_share(pair_, devices_))
        reason = "NCCL refuses ranks that share a GPU; give each rank its own";
    if (reason.empty())
        return true;
    report_.left_out.push_back({name(reference), reason});
    if (pair_.rank() == 0)
        std::fprintf(stderr, "gpurun-perf: --against=%s is left out: %s\n", name(reference), reason.c_str());
    return false;
}

void Session::admit(const Reference& reference, const Ground& ground) {
    std::unique_ptr<Contender> contender;
    if (reference == Reference::kNccl)
        contender = make_nccl(ground);
    else if (!pair_.alone())
        contender = make_copy(ground);
    if (contender != nullptr)
        report_.references.push_back({name(reference), contender->how()});
    entrants_.push_back({&reference, std::move(contender)});
}

bool Session::has(const Entrant& entrant, const Task& task) const {
    return entrant.reference == nullptr || measures(*entrant.reference, task.test);
}

// All pairs start together: they share the machine for the whole turn.
void Session::turn(Entrant& entrant, const Task& task, int samples, Samples& into) {
    meet_all();
    if (entrant.contender != nullptr)
        entrant.contender->turn(task, samples, into);
}

Row Session::measure(const Task& task) {
    std::vector<Entrant*> running;
    for (Entrant& entrant : entrants_)
        if (has(entrant, task))
            running.push_back(&entrant);
    for (Entrant* entrant : running) {
        if (entrant->contender != nullptr)
            entrant->contender->prepare(task);
        Samples thrown_away;
        turn(*entrant, task, task.warmup, thrown_away);
    }
    std::vector<Samples> samples(running.size());
    for (int i = 0; i < task.turns; ++i)
        for (size_t who = 0; who < running.size(); ++who)
            turn(*running[who], task, task.samples, samples[who]);
    Row row{task, {}, {}};
    for (size_t who = 0; who < running.size(); ++who) {
        if (running[who]->contender != nullptr)
            running[who]->contender->finish(task);
        if (running[who]->reference != nullptr)
            row.against.push_back(*running[who]->reference);
        row.figures.push_back(figures(task, all_samples(pair_, samples[who])));
    }
    return row;
}

void Session::run() {
    const bool prints = pair_.rank() == 0 && !report_.options.json;
    if (prints)
        print(text_head(report_));
    for (const Task& task : tasks_) {
        report_.rows.push_back(measure(task));
        const size_t rows = report_.rows.size();
        if (prints)
            print(text_row(report_.rows.back(), rows > 1 ? &report_.rows[rows - 2] : nullptr));
    }
    if (pair_.rank() == 0)
        publish();
}

void Session::publish() const {
    if (report_.options.json)
        print(json(report_));
    if (!report_.options.plot.empty())
        write_file(report_.options.plot, svg(report_));
}

} // namespace gpurun::bench
