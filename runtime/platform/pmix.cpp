#include "platform/pmix.hpp"

#include "base/format.hpp"

#include <cstddef>
#include <cstdlib>
#include <dlfcn.h>
#include <memory>

namespace gpurun::platform {

namespace {

using base::Result;
using base::Status;

// What pmix_common.h of versions 2 to 5 says. Only beginnings of structures that the library allocates are read.
constexpr int kSuccess = 0;
constexpr uint32_t kAllRanks = UINT32_MAX - 1;
constexpr uint16_t kUint32 = 14;
struct Process {
    char job[256];
    uint32_t rank;
};
struct Value {
    uint16_t type;
    alignas(8) uint32_t number;
};
static_assert(sizeof(Process) == 260 && offsetof(Value, number) == 8);

struct FreeValue {
    void operator()(Value* value) const { std::free(value); } // a number points to nothing else
};

struct Library {
    int (*init)(Process*, const void*, size_t) = nullptr;
    int (*get)(const Process*, const char*, const void*, size_t, Value**) = nullptr;
    int (*finalize)(const void*, size_t) = nullptr;
    const char* (*describe)(int) = nullptr;
};

template <typename Function>
bool look_up(void* library, const char* name, Function& function) {
    function = reinterpret_cast<Function>(::dlsym(library, name));
    return function != nullptr;
}

// Never unloaded: it has threads and exit handlers.
Result<Library> load() {
    void* const loaded = ::dlopen("libpmix.so.2", RTLD_NOW | RTLD_LOCAL);
    if (loaded == nullptr)
        return base::error(Status::kUnsupported,
                           "a launcher that serves PMIx has started this process, and libpmix.so.2, which asks it, "
                           "cannot be loaded: install it (Debian: libpmix2), or set GPURUN_JOB to a name that all "
                           "ranks share, and GPURUN_RANK and GPURUN_SIZE, or only GPURUN_SIZE=1 for a job of its own");
    Library library;
    if (look_up(loaded, "PMIx_Init", library.init) && look_up(loaded, "PMIx_Get", library.get) &&
        look_up(loaded, "PMIx_Finalize", library.finalize) && look_up(loaded, "PMIx_Error_string", library.describe))
        return library;
    return base::error(Status::kUnsupported, "libpmix.so.2 lacks functions of PMIx 2 or later");
}

Result<uint32_t> number_of(const Library& library, const Process& of, const char* key) {
    Value* found = nullptr;
    const int got = library.get(&of, key, nullptr, 0, &found);
    const std::unique_ptr<Value, FreeValue> value(found);
    if (got == kSuccess && value != nullptr && value->type == kUint32)
        return value->number;
    return base::error(Status::kLauncher,
                       "the launcher of this process does not say {} by PMIx ({}): set GPURUN_JOB to a name that all "
                       "ranks share, and GPURUN_RANK and GPURUN_SIZE",
                       key, library.describe(got));
}

Result<PmixJob> numbers_of(const Library& library, const Process& all) {
    PmixJob job;
    GPURUN_ASSIGN(job.size, number_of(library, all, "pmix.job.size"));
    GPURUN_ASSIGN(job.local_size, number_of(library, all, "pmix.local.size"));
    return job;
}

} // namespace

Result<PmixJob> ask_pmix() {
    GPURUN_ASSIGN(const Library library, load());
    Process all{};
    if (const int failed = library.init(&all, nullptr, 0); failed != kSuccess)
        return base::error(Status::kLauncher,
                           "PMIX_NAMESPACE says that a launcher has started this process, and it does not answer "
                           "(PMIx_Init: {}): start the ranks again, or set GPURUN_SIZE=1 if this is to be a job of its "
                           "own",
                           library.describe(failed));
    all.rank = kAllRanks;
    auto job = numbers_of(library, all);
    library.finalize(nullptr, 0); // at once: a death of a client would end the others
    return job;
}

} // namespace gpurun::platform
