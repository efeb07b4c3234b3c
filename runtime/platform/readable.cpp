#include "platform/readable.hpp"

#include "platform/unique_fd.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

namespace gpurun::platform {

namespace {

// The pages of a range, one after the other, by the first address of each that is in the range.
class Pages {
  public:
    Pages(const void* first, size_t bytes)
        : first_(reinterpret_cast<uintptr_t>(first)), last_(first_ + (bytes == 0 ? 0 : bytes - 1)),
          page_(first_ / kSmallestPage) {}
    bool exist() const { return first_ <= last_; } // else the range wraps around
    bool any_left() const { return page_ <= last_ / kSmallestPage; }
    uintptr_t take() { return std::max(first_, page_++ * kSmallestPage); }

  private:
    uintptr_t first_;
    uintptr_t last_;
    uintptr_t page_;
};

// The kernel makes pages ready to be read or written, as a use of them would: one call for all of them. False if it
// cannot (Linux 5.14 can), also of a driver's memory, which may be usable all the same.
bool make_ready(const void* first, size_t bytes, int advice) {
    const size_t in_page = reinterpret_cast<uintptr_t>(first) % kSmallestPage;
    const uintptr_t begin = reinterpret_cast<uintptr_t>(first) - in_page;
    return madvise(reinterpret_cast<void*>(begin), bytes + in_page, advice) == 0;
}

// The kernel reads a byte of each for us; it stops before the first that it cannot read. A pipe works where containers
// refuse process_vm_readv().
bool takes_all(const std::array<iovec, 64>& bytes, size_t count) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0)
        return true;
    const UniqueFd out(ends[0]);
    const UniqueFd in(ends[1]);
    // Not writev(): to sanitizers that is a read of the addresses, in this thread.
    const long written = syscall(SYS_writev, in.get(), bytes.data(), count);
    return written < 0 ? errno != EFAULT : static_cast<size_t>(written) == count;
}

// It would report what the kernel is asked here: about bytes that nobody has written yet, or on a page beside a buffer.
// What it preloads is how it makes itself known without its headers.
bool under_valgrind() {
    static const bool is = [] {
        const char* const preloaded = std::getenv("LD_PRELOAD");
        return preloaded != nullptr && std::strstr(preloaded, "/vgpreload_") != nullptr;
    }();
    return is;
}

} // namespace

bool readable(const void* first, size_t bytes) {
    Pages pages(first, bytes);
    if (!pages.exist())
        return false;
    if (under_valgrind() || make_ready(first, bytes, MADV_POPULATE_READ))
        return true;
    std::array<iovec, 64> looks;
    while (pages.any_left()) {
        size_t count = 0;
        while (count < looks.size() && pages.any_left())
            looks[count++] = {reinterpret_cast<void*>(pages.take()), 1};
        if (!takes_all(looks, count))
            return false;
    }
    return true;
}

// Of all that the kernel does to a word of the caller's, only this leaves it as it is: an atomic "or" with nothing.
bool writable(const void* first, size_t bytes) {
    constexpr unsigned kOrNothing = FUTEX_OP(FUTEX_OP_OR, 0, FUTEX_OP_CMP_EQ, 0);
    constexpr long kWakeNobody = 0;
    uint32_t unused = 0;
    Pages pages(first, bytes);
    if (!pages.exist())
        return false;
    if (under_valgrind() || make_ready(first, bytes, MADV_POPULATE_WRITE))
        return true;
    while (pages.any_left()) {
        const uintptr_t word = pages.take() & ~uintptr_t{3};
        if (syscall(SYS_futex, &unused, FUTEX_WAKE_OP_PRIVATE, kWakeNobody, kWakeNobody, word, kOrNothing) < 0 &&
            errno == EFAULT)
            return false;
    }
    return true;
}

// An asynchronous msync() does nothing but to walk over the mappings.
bool mapped(const void* first, size_t bytes) {
    const size_t in_page = reinterpret_cast<uintptr_t>(first) % kSmallestPage;
    const uintptr_t begin = reinterpret_cast<uintptr_t>(first) - in_page;
    if (bytes > UINTPTR_MAX - in_page || begin > UINTPTR_MAX - (bytes + in_page))
        return false;
    if (under_valgrind())
        return true;
    return msync(reinterpret_cast<void*>(begin), bytes + in_page, MS_ASYNC) == 0 || errno != ENOMEM;
}

} // namespace gpurun::platform
