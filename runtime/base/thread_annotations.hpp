// What a function needs of a lock, in the words of clang's thread-safety analysis (`./dev lint` checks it). Other
// compilers see nothing.
#pragma once

#if defined(__clang__)
#define GPURUN_THREAD_ATTRIBUTE(attribute) __attribute__((attribute))
#else
#define GPURUN_THREAD_ATTRIBUTE(attribute)
#endif

#define GPURUN_CAPABILITY(name) GPURUN_THREAD_ATTRIBUTE(capability(name))
#define GPURUN_SCOPED_CAPABILITY GPURUN_THREAD_ATTRIBUTE(scoped_lockable)
#define GPURUN_REQUIRES(...) GPURUN_THREAD_ATTRIBUTE(requires_capability(__VA_ARGS__))
#define GPURUN_ACQUIRE(...) GPURUN_THREAD_ATTRIBUTE(acquire_capability(__VA_ARGS__))
#define GPURUN_RELEASE(...) GPURUN_THREAD_ATTRIBUTE(release_capability(__VA_ARGS__))
#define GPURUN_ASSERTS(...) GPURUN_THREAD_ATTRIBUTE(assert_capability(__VA_ARGS__))
#define GPURUN_NO_ANALYSIS GPURUN_THREAD_ATTRIBUTE(no_thread_safety_analysis)
