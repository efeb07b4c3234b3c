/*
 * DLPack's layout of a tensor and of its exchange table, versions 1.0 to 1.3, as far as this package reads them.
 */
#pragma once

#include <cstdint>

namespace gpurun::python::dlpack {

inline constexpr std::uint32_t kMajor = 1;

enum Device : std::int32_t { kCpu = 1, kCuda = 2, kCudaHost = 3, kCudaManaged = 13 };
enum Code : std::uint8_t { kInt = 0, kUInt = 1, kFloat = 2, kBfloat = 4, kComplex = 5, kBool = 6 };
inline constexpr std::uint64_t kReadOnly = 1;

struct Version {
    std::uint32_t major;
    std::uint32_t minor;
};

struct Where {
    std::int32_t type;
    std::int32_t id;
};

struct DataType {
    std::uint8_t code;
    std::uint8_t bits;
    std::uint16_t lanes;
};

struct Tensor {
    void* data;
    Where device;
    std::int32_t ndim;
    DataType dtype;
    std::int64_t* shape;
    std::int64_t* strides; // in elements; null: contiguous
    std::uint64_t byte_offset;
};

struct Managed { // of a capsule named "dltensor"
    Tensor tensor;
    void* context;
    void (*deleter)(Managed*);
};

struct ManagedVersioned { // of a capsule named "dltensor_versioned"
    Version version;
    void* context;
    void (*deleter)(ManagedVersioned*);
    std::uint64_t flags;
    Tensor tensor;
};

/* What a type's __dlpack_c_exchange_api__ points to. All functions need the GIL, give 0, or -1 and a Python error. */
struct Exchange {
    Version version;
    Exchange* older;
    void* allocate;
    int (*to_managed)(void* object, ManagedVersioned** ret_tensor);
    void* from_managed;
    int (*to_tensor)(void* object, Tensor* ret_tensor); // may be null; the object stays the owner
    int (*current_stream)(std::int32_t device_type, std::int32_t device_id, void** ret_stream);
};

} // namespace gpurun::python::dlpack
