// Reading and writing another rank's ordinary memory (process_vm_readv, process_vm_writev).
//
// Containers, seccomp filters and ptrace scopes may refuse it, and a pid may mean another process in another
// namespace: whether it works is found by reading a token that the peer has published.
#pragma once

#include "base/status.hpp"

#include <cstddef>
#include <cstdint>

namespace gpurun::platform {

// Lets the other ranks read this process, where the system asks for permission (Yama's ptrace scope).
void allow_peer_reads();

// kSystem if it is refused or the peer's memory is not there.
base::Result<void> read_peer(int pid, void* destination, uint64_t source, size_t bytes);
base::Result<void> write_peer(int pid, uint64_t destination, const void* source, size_t bytes);

// What a rank publishes: where its token is, and what it reads.
struct Token {
    uint64_t address;
    uint64_t value;
};
Token own_token();
// Whether the process `pid` is the one that has published `token`, and lets itself be read.
bool can_read_peer(int pid, const Token& token);

} // namespace gpurun::platform
