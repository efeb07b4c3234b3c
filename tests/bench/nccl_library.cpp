#include "nccl_library.hpp"

#include <dlfcn.h>

namespace gpurun::bench {

namespace {

constexpr const char* kLibrary = "libnccl.so.2";

template <typename Function>
void find(void* library, const char* name, Function& function) {
    function = reinterpret_cast<Function>(dlsym(library, name));
}

// As find(); it must be there, as it is from `version` on.
template <typename Function>
void find(void* library, const char* name, Function& function, std::string& missing, const char* version = "2.7") {
    find(library, name, function);
    if (function == nullptr && missing.empty())
        missing = std::string(kLibrary) + " has no " + name + "; install NCCL " + version + " or later";
}

void find_collectives(void* library, Nccl& made) {
    find(library, "ncclAllReduce", made.all_reduce, made.missing);
    find(library, "ncclBroadcast", made.broadcast, made.missing);
    find(library, "ncclReduce", made.reduce, made.missing);
    find(library, "ncclAllGather", made.all_gather, made.missing);
    find(library, "ncclReduceScatter", made.reduce_scatter, made.missing);
    find(library, "ncclAlltoAll", made.all_to_all);
    find(library, "ncclGather", made.gather);
    find(library, "ncclScatter", made.scatter);
}

void find_windows(void* library, Nccl& made) {
    constexpr const char* kFirst = "2.27";
    find(library, "ncclMemAlloc", made.mem_alloc, made.missing_windows, kFirst);
    find(library, "ncclMemFree", made.mem_free, made.missing_windows, kFirst);
    find(library, "ncclCommWindowRegister", made.window_register, made.missing_windows, kFirst);
    find(library, "ncclCommWindowDeregister", made.window_deregister, made.missing_windows, kFirst);
}

Nccl load() {
    Nccl made;
    void* library = dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
        made.missing = std::string(dlerror()) + "; install NCCL, or add its folder to LD_LIBRARY_PATH";
        return made;
    }
    find(library, "ncclGetVersion", made.get_version, made.missing);
    find(library, "ncclGetUniqueId", made.get_unique_id, made.missing);
    find(library, "ncclCommInitRank", made.comm_init_rank, made.missing);
    find(library, "ncclCommDestroy", made.comm_destroy, made.missing);
    find(library, "ncclSend", made.send, made.missing);
    find(library, "ncclRecv", made.recv, made.missing);
    find(library, "ncclGroupStart", made.group_start, made.missing);
    find(library, "ncclGroupEnd", made.group_end, made.missing);
    find(library, "ncclGetErrorString", made.get_error_string, made.missing);
    find_collectives(library, made);
    find_windows(library, made);
    return made;
}

} // namespace

const Nccl& nccl() {
    static const Nccl loaded = load();
    return loaded;
}

} // namespace gpurun::bench
