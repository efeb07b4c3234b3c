#include "platform/wake.hpp"

#include "base/check.hpp"

#include <bit>
#include <climits>
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#ifdef __SANITIZE_THREAD__
#include <sanitizer/tsan_interface.h>
#endif

namespace gpurun::platform {

static_assert(std::endian::native == std::endian::little, "the low half of a 64-bit word comes first");

namespace {

void futex_wait(void* word, uint32_t seen, int64_t timeout_ns) {
    timespec timeout{timeout_ns / 1'000'000'000, timeout_ns % 1'000'000'000};
    ::syscall(SYS_futex, word, FUTEX_WAIT, seen, timeout_ns < 0 ? nullptr : &timeout, nullptr, 0);
}

#ifdef __SANITIZE_THREAD__
char published_to_peers; // an address is all it is
void tell_published() { __tsan_release(&published_to_peers); }
void tell_seen() { __tsan_acquire(&published_to_peers); }
#else
void tell_published() {}
void tell_seen() {}
#endif

std::atomic<uint32_t> sleepers_here{0}; // on words of 64 bits

void futex_wake(void* word) { ::syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0); }

} // namespace

void sleep_while(std::atomic<uint32_t>& word, uint32_t seen, int64_t timeout_ns) {
    futex_wait(&word, seen, timeout_ns);
}

void sleep_while(std::atomic<uint64_t>& word, uint64_t seen, int64_t timeout_ns) {
    sleepers_here.fetch_add(1, std::memory_order_seq_cst); // before the system looks at the word
    futex_wait(&word, static_cast<uint32_t>(seen), timeout_ns);
    sleepers_here.fetch_sub(1, std::memory_order_relaxed);
}

void wake_all(std::atomic<uint32_t>& word) { futex_wake(&word); }
void wake_all(std::atomic<uint64_t>& word) { futex_wake(&word); }

void store_and_wake(std::atomic<uint64_t>& word, uint64_t value) {
    tell_published();
    word.store(value, std::memory_order_release);
    futex_wake(&word);
}

void store_and_wake_here(std::atomic<uint64_t>& word, uint64_t value) {
    tell_published();
    word.store(value, std::memory_order_seq_cst); // pairs with sleep_while()
    if (sleepers_here.load(std::memory_order_seq_cst) != 0)
        futex_wake(&word);
}

uint64_t load_published(const std::atomic<uint64_t>& word) {
    const uint64_t value = word.load(std::memory_order_acquire);
    tell_seen();
    return value;
}

bool agree_to_heavy_fences() { return ::syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED, 0, 0) == 0; }

void heavy_fence() { GPURUN_ASSERT(::syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL_EXPEDITED, 0, 0) == 0); }

} // namespace gpurun::platform
