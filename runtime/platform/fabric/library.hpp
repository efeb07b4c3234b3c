// libfabric, as it is loaded at run time: the functions that are not reached through its objects.
#pragma once

#include "base/status.hpp"

#include <cstdint>
#include <rdma/fabric.h>

namespace gpurun::platform {

struct FabricLibrary {
    int (*get_info)(uint32_t, const char*, const char*, uint64_t, const fi_info*, fi_info**) = nullptr;
    void (*free_info)(fi_info*) = nullptr;
    fi_info* (*copy_info)(const fi_info*) = nullptr; // of null: an empty one
    int (*open_fabric)(fi_fabric_attr*, fid_fabric**, void*) = nullptr;
    const char* (*describe)(int) = nullptr;

    // Loaded with the first call, and kept until the process ends: providers have threads and exit handlers. rxm keeps
    // messages of up to `eager_bytes` in order.
    static base::Result<const FabricLibrary*> get(size_t eager_bytes);
};

} // namespace gpurun::platform
