// Memory of every kind that a program can have of CUDA and of the system, for allocations.cpp: made, written, read, and
// given back. Everything in the order of a stream of the rank's device, or by the calling thread alone.
//
// A kind says what the runtime is to make of it (Class), and where in it messages lie: around its seam, if it has one,
// where one piece of memory ends and the next begins.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

// A step that only prepares: without it there is nothing to test.
#define MUST(call)                                                                                                     \
    do {                                                                                                               \
        const auto must_result = (call);                                                                               \
        if (static_cast<int>(must_result) != 0)                                                                        \
            ::allocations::give_up(__FILE__, __LINE__, #call, static_cast<int>(must_result));                          \
    } while (false)

namespace allocations {

[[noreturn]] void give_up(const char* file, int line, const char* call, int result);

constexpr size_t kBytes = 8u << 20; // of each kind
constexpr size_t kSeam = kBytes / 2;

// What memory that is not written holds at an offset.
inline unsigned char file_byte(size_t offset) { return static_cast<unsigned char>(offset * 37 >> 3); }

// What decides the path.
enum class Class {
    kExportable, // device memory with a CUDA IPC handle, or descriptors
    kDevice,     // that the rank's device reaches, without one
    kElsewhere,  // that only another device reaches
    kPinned,
    kPageable,
};

// The driver's functions for mapped memory. No libcuda.so at link time.
struct Driver {
    Driver();
    decltype(&::cuMemGetAllocationGranularity) cuMemGetAllocationGranularity = nullptr;
    decltype(&::cuMemAddressReserve) cuMemAddressReserve = nullptr;
    decltype(&::cuMemAddressFree) cuMemAddressFree = nullptr;
    decltype(&::cuMemCreate) cuMemCreate = nullptr;
    decltype(&::cuMemRelease) cuMemRelease = nullptr;
    decltype(&::cuMemMap) cuMemMap = nullptr;
    decltype(&::cuMemUnmap) cuMemUnmap = nullptr;
    decltype(&::cuMemSetAccess) cuMemSetAccess = nullptr;
};
const Driver& driver();

// The devices of this rank: its own, and another one if there is one.
struct Devices {
    int own = 0;
    int other = -1;
    bool peer_access = false; // each may reach the other's memory of cudaMalloc
};

// A range of kBytes, some pieces of which are mapped: from `first` to `last`, of `piece` bytes each.
struct Mapped {
    int device = 0;
    bool shareable = false; // with a handle that other processes could import
    size_t piece = kBytes;
    size_t first = 0, last = kBytes;
    std::vector<int> reached_by; // devices with access
    bool writable = true;
    void* map() const;              // null if the device cannot
    static void unmap(void* range); // all of it
};

struct Kind {
    std::string name;
    Class is = Class::kDevice;
    int device = -1; // -1: host memory
    bool has_seam = false;
    bool receives = true;
    std::function<void*()> make; // null if there is none here
    std::function<void(void*)> release;
    bool ask_reach = false; // kElsewhere, unless CUDA says that the rank's device has access
};
void* kernel_variable(); // of kBytes
std::vector<Kind> all_kinds(const Devices& devices);

// Memory of a kind, for as long as this lives.
class Memory {
  public:
    Memory(const Devices& devices, const Kind& kind) : devices_(devices), kind_(kind), data_(kind.make()) {}
    ~Memory() {
        if (data_ != nullptr)
            kind_.release(data_);
    }
    Memory(const Memory&) = delete;
    Memory& operator=(const Memory&) = delete;

    explicit operator bool() const { return data_ != nullptr; }
    bool reached() const; // by the rank's device
    const Kind& kind() const { return kind_; }
    unsigned char* at(size_t offset) const { return static_cast<unsigned char*>(data_) + offset; }

    // Enqueued in `stream`, of the rank's device; `from` and `to` are pinned, and stay until that is done.
    void write(size_t offset, const void* from, size_t bytes, cudaStream_t stream) const;
    void read(size_t offset, void* to, size_t bytes, cudaStream_t stream) const;
    void fill(size_t offset, int value, size_t bytes, cudaStream_t stream) const;
    // Done on return, by CUDA's synchronous calls.
    void write_now(size_t offset, const void* from, size_t bytes) const;
    void read_now(size_t offset, void* to, size_t bytes) const;
    void fill_now(size_t offset, int value, size_t bytes) const;

  private:
    void in_order(cudaStream_t stream, const std::function<void(cudaStream_t)>& work) const;

    const Devices& devices_;
    Kind kind_;
    void* data_;
};

} // namespace allocations
