// Whether this process can read or write memory, without the fault that doing so would be.
#pragma once

#include <cstddef>

namespace gpurun::platform {

constexpr size_t kSmallestPage = 4096;

// Each page of [first, first + bytes). One system call, 0.3 us and 0.06 a page; where that gives no answer a few more,
// and for writable() one a page. True if the system will not say, and under valgrind, which itself tells where memory
// is used that must not be.
bool readable(const void* first, size_t bytes = 1);
// Whatever is written there at the same time, by another thread or by a device, stays.
bool writable(const void* first, size_t bytes = 1);
// Whether something is mapped in all of it, whatever may be done with that: one system call, some 0.2 us, and no page
// is touched.
bool mapped(const void* first, size_t bytes);

} // namespace gpurun::platform
