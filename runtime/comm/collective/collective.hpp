// Operations of all ranks of a communicator, made of messages in its collective context.
#pragma once

#include "comm/engine.hpp"

namespace gpurun::comm {

// The message's true length: more than the buffer's if it was truncated. At the root, the buffer's.
base::Result<size_t> bcast(Engine& engine, const Communicator& comm, const transfer::Operand& buffer, int root);

// `order` is an operand without bytes: the caller's order domain.
base::Result<void> barrier(Engine& engine, const Communicator& comm, const transfer::Operand& order);

} // namespace gpurun::comm
