// Collectives as schedules: each file builds the steps of one, for this rank of the schedule's communicator, and runs
// or starts it.
#pragma once

#include "comm/engine.hpp"

namespace gpurun::comm {

// Ranks have been checked. `order` is an operand without bytes: the caller's order domain. What starts one gives the
// name of its request; it is not captured.
base::Result<void> barrier(Engine& engine, const Communicator& comm, const transfer::Operand& order);
uint64_t start_barrier(Engine& engine, const Communicator& comm, const transfer::Operand& order);

// The message's true length: more than the buffer's if it was truncated. At the root, the buffer's.
base::Result<size_t> bcast(Engine& engine, const Communicator& comm, const transfer::Operand& buffer, int root);
uint64_t start_bcast(Engine& engine, const Communicator& comm, const transfer::Operand& buffer, int root);

// ---- the steps alone
void build_barrier(Schedule& schedule);
// The step that has the message's true length; none at the root.
std::optional<Schedule::StepId> build_bcast(Schedule& schedule, const Schedule::Buffer& buffer, Rank root);

} // namespace gpurun::comm
