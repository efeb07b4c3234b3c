// Sleeping on a word of shared memory, and waking whoever sleeps there, across processes (futex).
//
// Wakes may be spurious: callers check their condition again. A 64-bit word is slept on by its low half, so its
// writers must change that half (job_segment.hpp's poison value is chosen so).
#pragma once

#include <atomic>
#include <cstdint>

namespace gpurun::platform {

constexpr int64_t kForever = -1;

// Sleeps while `word` reads `seen`, until woken or for `timeout_ns`.
void sleep_while(std::atomic<uint32_t>& word, uint32_t seen, int64_t timeout_ns);
void sleep_while(std::atomic<uint64_t>& word, uint64_t seen, int64_t timeout_ns);

void wake_all(std::atomic<uint32_t>& word);
void wake_all(std::atomic<uint64_t>& word);

// Publishes (release) and wakes. Pairs with load_published(), here or in a peer.
//
// ThreadSanitizer follows order inside one process. Order that leaves by one word and comes back by another, through
// a peer, is told to it by these.
void store_and_wake(std::atomic<uint64_t>& word, uint64_t value);
// The same of a word of this process alone: a system call only if some thread sleeps on any word of 64 bits.
void store_and_wake_here(std::atomic<uint64_t>& word, uint64_t value);
uint64_t load_published(const std::atomic<uint64_t>& word); // acquire

// A store and a later load of this process keep their order against a peer's heavy_fence(), at no cost, once it has
// said (agree_to_heavy_fences(), true) that the system interrupts it for that: what the peer had stored before its
// fence is loaded, or what is stored here is seen after it.
bool agree_to_heavy_fences();
inline void light_fence() { std::atomic_signal_fence(std::memory_order_seq_cst); }
void heavy_fence(); // a system call, of microseconds
} // namespace gpurun::platform
