#include "session.hpp"

#include "call.hpp"
#include "collective.hpp"
#include "tuning.hpp"

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

// 0: there is no such task.
size_t largest_arena(const std::vector<Task>& tasks, bool whole_job) {
    size_t largest = 0;
    for (const Task& task : tasks)
        if (of_whole_job(task.test) == whole_job)
            largest = std::max(largest, std::max(kElementBytes, task.bytes * static_cast<size_t>(task.slots())));
    return largest;
}

} // namespace

Session::Session(const Options& options)
    : pair_(Pair::of_this_rank()), devices_(all_devices(pair_)),
      tasks_(plan(options, devices_[0].kind == GPURUN_DEVICE_CUDA, pair_.size())),
      compute_(devices_[static_cast<size_t>(pair_.rank())]) {
    report_.options = options;
    report_.machine = describe(pair_, devices_);
    if (pair_.rank() == 0 && !options.plot.empty())
        expect_writable(options.plot);
    add_entrants(false);
    add_entrants(true);
    leave_out_idle();
}

// gpurun and the references, for the tests of pairs or for those of the whole job. None if there is no such test.
void Session::add_entrants(bool whole_job) {
    const size_t arena = largest_arena(tasks_, whole_job);
    if (arena == 0)
        return;
    const Ground ground{pair_, report_.options, devices_[static_cast<size_t>(pair_.rank())], arena, compute_};
    if (whole_job)
        entrants_.push_back({nullptr, true, make_gpurun_collectives(ground, report_.options.tune ? "auto" : nullptr)});
    else
        entrants_.push_back({nullptr, false, pair_.alone() ? nullptr : make_gpurun(ground)});
    for (const Reference& reference : report_.options.against) {
        const bool busy = std::any_of(tasks_.begin(), tasks_.end(), [&](const Task& task) {
            return of_whole_job(task.test) == whole_job && measures(reference, task);
        });
        const std::string reason = busy ? why_out(reference, whole_job) : "";
        if (!reason.empty())
            leave_out(reference, reason);
        else if (busy)
            admit(reference, whole_job, ground);
    }
}

// Why the reference cannot be measured here, or ""; all ranks agree.
std::string Session::why_out(Reference reference, bool whole_job) const {
    if (reference == Reference::kCopy || is_network(reference) || is_algorithm(reference))
        return "";
    const gpurun_device_info& device = devices_[static_cast<size_t>(pair_.rank())];
    const std::string reason = first_text(pair_, why_not_nccl(reference, report_.options, device));
    const int ranks = whole_job ? pair_.size() : pair_.size() / 2 * 2;
    return reason.empty() && any_share(ranks, devices_) ? "NCCL refuses ranks that share a GPU; give each rank its own"
                                                        : reason;
}

// Said once, also if it is out of both kinds of tests.
void Session::leave_out(Reference reference, const std::string& reason) {
    for (const Named& said : report_.left_out)
        if (said.name == name(reference) && said.text == reason)
            return;
    report_.left_out.push_back({name(reference), reason});
    if (pair_.rank() == 0)
        std::fprintf(stderr, "gpurun-perf: --against=%s is left out: %s\n", name(reference), reason.c_str());
}

// What was asked for and has nothing to measure.
void Session::leave_out_idle() {
    for (const Reference& reference : report_.options.against)
        if (std::none_of(tasks_.begin(), tasks_.end(), [&](const Task& task) { return measures(reference, task); }))
            leave_out(reference, "it cannot be measured for these tests");
}

void Session::admit(const Reference& reference, bool whole_job, const Ground& ground) {
    std::unique_ptr<Contender> contender;
    if (is_algorithm(reference))
        contender = make_gpurun_collectives(ground, name(reference));
    else if (whole_job)
        contender = make_nccl_collectives(ground, reference);
    else if (reference == Reference::kNccl)
        contender = make_nccl(ground);
    else if (!pair_.alone())
        contender = is_network(reference) ? make_network(ground, reference) : make_copy(ground);
    const std::string reason = first_text(pair_, contender != nullptr ? contender->why_not() : "");
    if (!reason.empty())
        return leave_out(reference, reason);
    if (contender != nullptr)
        report_.references.push_back({name(reference), contender->how()});
    entrants_.push_back({&reference, whole_job, std::move(contender)});
}

bool Session::has(const Entrant& entrant, const Task& task) const {
    return entrant.whole_job == of_whole_job(task.test) &&
           (entrant.reference == nullptr || measures(*entrant.reference, task));
}

// All ranks start together: they share the machine for the whole turn.
void Session::turn(Entrant& entrant, const Task& task, int samples, Samples& into) {
    pair_.meet_all();
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
    if (prints && report_.options.tune)
        print(text_tuned(report_.rows));
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
