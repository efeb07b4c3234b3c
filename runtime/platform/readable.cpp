#include "platform/readable.hpp"

#include "platform/unique_fd.hpp"

#include <cerrno>
#include <cstdint>
#include <fcntl.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace gpurun::platform {

// The kernel reads for us and answers EFAULT. A pipe works where containers refuse process_vm_readv().
bool readable(const void* address) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0)
        return true;
    const UniqueFd out(ends[0]);
    const UniqueFd in(ends[1]);
    // Not write(): to sanitizers that is a read of the address, in this thread.
    return syscall(SYS_write, in.get(), address, 1) == 1 || errno != EFAULT;
}

// Of all that the kernel does to a word of the caller's, only this leaves it as it is: an atomic "or" with nothing.
bool writable(const void* address) {
    uint32_t unused = 0;
    const uintptr_t word = reinterpret_cast<uintptr_t>(address) & ~uintptr_t{3};
    constexpr unsigned kOrNothing = FUTEX_OP(FUTEX_OP_OR, 0, FUTEX_OP_CMP_EQ, 0);
    constexpr long kWakeNobody = 0;
    return syscall(SYS_futex, &unused, FUTEX_WAKE_OP_PRIVATE, kWakeNobody, kWakeNobody, word, kOrNothing) >= 0 ||
           errno != EFAULT;
}

} // namespace gpurun::platform
