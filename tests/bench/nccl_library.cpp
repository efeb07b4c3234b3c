#include "nccl_library.hpp"

#include <dlfcn.h>

namespace gpurun::bench {

namespace {

constexpr const char* kLibrary = "libnccl.so.2";

template <typename Function>
void find(void* library, const char* name, Function& function, std::string& missing) {
    function = reinterpret_cast<Function>(dlsym(library, name));
    if (function == nullptr && missing.empty())
        missing = std::string(kLibrary) + " has no " + name + "; install NCCL 2.7 or later";
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
    return made;
}

} // namespace

const Nccl& nccl() {
    static const Nccl loaded = load();
    return loaded;
}

} // namespace gpurun::bench
