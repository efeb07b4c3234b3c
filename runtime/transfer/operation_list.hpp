// The lists that an operation can be in while it is under way.
#pragma once

#include "base/list.hpp"

namespace gpurun::transfer {

class Operation;
class Send;
class Receive;

struct Moving;   // of the rank: those that advance() moves
struct Unposted; // of a peer: sends that wait for room, in call order
struct Left;     // of the rank: those whose last work is left to their completion
struct Queued;   // of a protocol's part of a peer: those that wait for their turn

using MovingList = base::List<Operation, Moving>;
using LeftList = base::List<Operation, Left>;

} // namespace gpurun::transfer
