#include "platform/peer_memory.hpp"

#include "platform/random_number.hpp"
#include "platform/system_error.hpp"

#include <sys/prctl.h>
#include <sys/uio.h>

namespace gpurun::platform {

void allow_peer_reads() { (void)::prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0); } // unknown where unneeded

base::Result<void> read_peer(int pid, void* destination, uint64_t source, size_t bytes) {
    auto* to = static_cast<std::byte*>(destination);
    while (bytes > 0) {
        const iovec local{to, bytes};
        const iovec remote{reinterpret_cast<void*>(source), bytes};
        const ssize_t copied = ::process_vm_readv(pid, &local, 1, &remote, 1, 0);
        if (copied <= 0)
            return system_error("process_vm_readv");
        to += copied;
        source += static_cast<uint64_t>(copied);
        bytes -= static_cast<size_t>(copied);
    }
    return {};
}

base::Result<void> write_peer(int pid, uint64_t destination, const void* source, size_t bytes) {
    auto* from = static_cast<std::byte*>(const_cast<void*>(source)); // an iovec has no const
    while (bytes > 0) {
        const iovec local{from, bytes};
        const iovec remote{reinterpret_cast<void*>(destination), bytes};
        const ssize_t copied = ::process_vm_writev(pid, &local, 1, &remote, 1, 0);
        if (copied <= 0)
            return system_error("process_vm_writev");
        from += copied;
        destination += static_cast<uint64_t>(copied);
        bytes -= static_cast<size_t>(copied);
    }
    return {};
}

Token own_token() {
    static const uint64_t value = random_number() | 1;
    return Token{reinterpret_cast<uint64_t>(&value), value};
}

bool can_read_peer(int pid, const Token& token) {
    uint64_t read = 0;
    return token.value != 0 && read_peer(pid, &read, token.address, sizeof read) && read == token.value;
}

} // namespace gpurun::platform
