#include "platform/pmix.hpp"

#include "base/format.hpp"

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>

namespace gpurun::platform {

namespace {

using base::Result;
using base::Status;

// What pmix_common.h of versions 2 to 5 says. Only beginnings of structures that the library allocates are read.
constexpr int kSuccess = 0;
constexpr uint32_t kAllRanks = UINT32_MAX - 1;
constexpr uint8_t kToAll = 3;
constexpr uint16_t kBool = 1;
constexpr uint16_t kString = 3;
constexpr uint16_t kUint16 = 13;
constexpr uint16_t kUint32 = 14;
struct Process {
    char job[256];
    uint32_t rank;
};
struct Value {
    uint16_t type;
    union {
        alignas(8) uint32_t number;
        uint16_t short_number;
        bool truth;
        char* text;
        std::byte any[32]; // the longest of theirs
    };
};
struct Info {
    char key[512];
    uint32_t flags;
    Value value;
};
static_assert(sizeof(Process) == 260 && offsetof(Value, number) == 8 && offsetof(Info, value) == 520);

struct FreeValue {
    void operator()(Value* value) const {
        if (value->type == kString)
            std::free(value->text);
        std::free(value);
    }
};
using OwnedValue = std::unique_ptr<Value, FreeValue>;

struct Library {
    int (*init)(Process*, const void*, size_t) = nullptr;
    int (*get)(const Process*, const char*, const void*, size_t, Value**) = nullptr;
    int (*put)(uint8_t, const char*, Value*) = nullptr;
    int (*commit)() = nullptr;
    int (*fence)(const Process*, size_t, const Info*, size_t, void (*)(int, void*), void*) = nullptr;
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
        look_up(loaded, "PMIx_Put", library.put) && look_up(loaded, "PMIx_Commit", library.commit) &&
        look_up(loaded, "PMIx_Fence_nb", library.fence) && look_up(loaded, "PMIx_Finalize", library.finalize) &&
        look_up(loaded, "PMIx_Error_string", library.describe))
        return library;
    return base::error(Status::kUnsupported, "libpmix.so.2 lacks functions of PMIx 2 or later");
}

// Of a process that is a client.
Library the_library; // NOLINT(cppcoreguidelines-avoid-non-const-global-variables)
Process self;        // NOLINT(cppcoreguidelines-avoid-non-const-global-variables)

Result<OwnedValue> value_of(uint32_t rank, const char* key, uint16_t type) {
    Process of = self;
    of.rank = rank;
    Value* found = nullptr;
    const int got = the_library.get(&of, key, nullptr, 0, &found);
    OwnedValue value(found);
    if (got == kSuccess && value != nullptr && value->type == type)
        return value;
    return base::error(Status::kLauncher,
                       "the launcher of this process does not say {} by PMIx ({}): set GPURUN_JOB to a name that all "
                       "ranks share, and GPURUN_RANK and GPURUN_SIZE",
                       key, the_library.describe(got));
}

// How a fence ended. The library may tell it after the wait for it was given up.
struct FenceEnd {
    std::mutex mutex;
    std::condition_variable changed;
    std::optional<int> status;
};

void note_end(int status, void* of) {
    const std::unique_ptr<std::shared_ptr<FenceEnd>> owner(static_cast<std::shared_ptr<FenceEnd>*>(of));
    FenceEnd& end = **owner;
    const std::lock_guard lock(end.mutex);
    end.status = status;
    end.changed.notify_all();
}

Result<void> await_all(int timeout_s) {
    Info collect{};
    std::strcpy(collect.key, "pmix.collect"); // what was put comes with it
    collect.value.type = kBool;
    collect.value.truth = true;
    const auto end = std::make_shared<FenceEnd>();
    auto passed_on = std::make_unique<std::shared_ptr<FenceEnd>>(end);
    int status = the_library.fence(nullptr, 0, &collect, 1, note_end, passed_on.get());
    if (status == kSuccess) {
        static_cast<void>(passed_on.release());
        std::unique_lock lock(end->mutex);
        if (!end->changed.wait_for(lock, std::chrono::seconds(timeout_s), [&] { return end->status.has_value(); }))
            return base::error(Status::kLauncher,
                               "another rank that the launcher of this one has started has not called gpurun_init() "
                               "within {} s; GPURUN_JOIN_TIMEOUT gives it more time",
                               timeout_s);
        status = *end->status;
    }
    if (status == kSuccess)
        return {};
    return base::error(Status::kLauncher,
                       "the launcher of this process cannot bring its ranks together (PMIx_Fence: {})",
                       the_library.describe(status));
}

} // namespace

Result<PmixClient> PmixClient::start() {
    GPURUN_ASSIGN(the_library, load());
    if (const int failed = the_library.init(&self, nullptr, 0); failed != kSuccess)
        return base::error(Status::kLauncher,
                           "PMIX_NAMESPACE says that a launcher has started this process, and it does not answer "
                           "(PMIx_Init: {}): start the ranks again, or set GPURUN_SIZE=1 if this is to be a job of its "
                           "own",
                           the_library.describe(failed));
    return PmixClient();
}

PmixClient::PmixClient(PmixClient&& other) noexcept : leaves_(std::exchange(other.leaves_, false)) {}

PmixClient::~PmixClient() {
    if (leaves_)
        the_library.finalize(nullptr, 0);
}

void PmixClient::stay() {
    leaves_ = false;
    std::atexit([] { the_library.finalize(nullptr, 0); });
}

Result<PmixJob> PmixClient::job() {
    PmixJob job;
    GPURUN_ASSIGN(const OwnedValue size, value_of(kAllRanks, "pmix.job.size", kUint32));
    GPURUN_ASSIGN(const OwnedValue local_size, value_of(kAllRanks, "pmix.local.size", kUint32));
    GPURUN_ASSIGN(const OwnedValue local_rank, value_of(self.rank, "pmix.lrank", kUint16));
    job.size = size->number;
    job.local_size = local_size->number;
    job.local_rank = local_rank->short_number;
    return job;
}

Result<std::string> PmixClient::share(uint32_t rank, const std::string& value, int timeout_s) {
    constexpr const char* kKey = "gpurun.meeting";
    if (rank == 0) {
        Value given{};
        given.type = kString;
        given.text = const_cast<char*>(value.c_str()); // which is copied
        int failed = the_library.put(kToAll, kKey, &given);
        failed = failed == kSuccess ? the_library.commit() : failed;
        if (failed != kSuccess)
            return base::error(Status::kLauncher, "the launcher of this process takes nothing by PMIx ({})",
                               the_library.describe(failed));
    }
    GPURUN_TRY(await_all(timeout_s));
    GPURUN_ASSIGN(const OwnedValue found, value_of(0, kKey, kString));
    return std::string(found->text);
}

} // namespace gpurun::platform
