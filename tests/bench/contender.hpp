// Something that moves messages between the ranks of a pair, or makes the collectives of the job, and can be timed:
// gpurun itself, or a reference.
//
// One object in each rank of a pair, or of the job, made by all of them at once. They make the same calls with the same
// task. One thread.
#pragma once

#include "compute.hpp"
#include "figures.hpp"
#include "pair.hpp"
#include "plan.hpp"

#include <gpurun/gpurun.h>

#include <memory>
#include <string>

namespace gpurun::bench {

constexpr size_t kAnswerBytes = 8; // to a window of messages
// To find out how long a computation should be that overlaps with others: the first only opens what others use.
constexpr int kTransfers = 5;

class Contender {
  public:
    Contender() = default;
    virtual ~Contender() = default;
    Contender(const Contender&) = delete;
    Contender& operator=(const Contender&) = delete;

    // For the table's head: what moves bytes how.
    virtual std::string how() const = 0;
    // Why it cannot be asked in this rank, if only making it could tell; or "".
    virtual std::string why_not() const { return {}; }

    // Before the first and after the last turn of a task; not timed.
    virtual void prepare(const Task&) {}
    virtual void finish(const Task&) {}

    // Takes so many samples, each on the rank that can time it.
    virtual void turn(const Task& task, int samples, Samples& into) = 0;
};

// What contenders are made of.
struct Ground {
    Pair pair;
    Options options;
    gpurun_device_info device; // this rank's
    size_t arena_bytes = 0;    // room for the slots of any task, each way
    Compute& compute;

    Memory memory() const { return options.memory[pair.leads() ? 0 : 1]; } // this rank's
};

std::unique_ptr<Contender> make_gpurun(const Ground& ground);
std::unique_ptr<Contender> make_copy(const Ground& ground);
std::unique_ptr<Contender> make_network(const Ground& ground, Reference reference);
// Made by all ranks of the job at once, none of which had a reason to leave it out; null in one that has no partner.
std::unique_ptr<Contender> make_nccl(const Ground& ground);

// Of the whole job. `reference` says which form of NCCL.
// By its `algorithm`, as gpurun_comm_set_algorithm() has it; null: as the job's settings say.
std::unique_ptr<Contender> make_gpurun_collectives(const Ground& ground, const char* algorithm);
std::unique_ptr<Contender> make_nccl_collectives(const Ground& ground, Reference reference);

// Why NCCL, in this form, cannot be asked in this rank, or "".
std::string why_not_nccl(Reference reference, const Options& options, const gpurun_device_info& device);

} // namespace gpurun::bench
