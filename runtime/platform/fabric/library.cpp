#include "platform/fabric/library.hpp"

#include <array>
#include <cstdlib>
#include <dlfcn.h>
#include <mutex>
#include <string>
#include <utility>

namespace gpurun::platform {

namespace {

template <typename Function>
bool look_up(void* library, const char* name, Function& function) {
    function = reinterpret_cast<Function>(::dlsym(library, name));
    return function != nullptr;
}

// For rxm, which reads them as it is loaded: buffers of a connection. By default they take 60 MiB more, some of which
// are first used after 100,000 messages. What the user has set stays.
constexpr std::array<std::pair<const char*, const char*>, 2> kFewBuffers = {{
    {"FI_OFI_RXM_MSG_TX_SIZE", "16"},
    {"FI_OFI_RXM_MSG_RX_SIZE", "16"},
}};

} // namespace

base::Result<const FabricLibrary*> FabricLibrary::get(size_t eager_bytes) {
    static std::mutex mutex;
    static FabricLibrary loaded;
    static bool is_loaded = false;
    const std::lock_guard lock(mutex);
    if (is_loaded)
        return &loaded;
    for (const auto& [name, value] : kFewBuffers)
        ::setenv(name, value, 0);
    ::setenv("FI_OFI_RXM_BUFFER_SIZE", std::to_string(eager_bytes).c_str(), 1); // whatever the user has set
    void* const library = ::dlopen("libfabric.so.1", RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr)
        return base::Error{base::Status::kUnsupported,
                           "ranks of several nodes need libfabric, and libfabric.so.1 cannot be loaded: install it "
                           "(Debian: libfabric1)"};
    is_loaded = look_up(library, "fi_getinfo", loaded.get_info) && look_up(library, "fi_freeinfo", loaded.free_info) &&
                look_up(library, "fi_dupinfo", loaded.copy_info) && look_up(library, "fi_fabric", loaded.open_fabric) &&
                look_up(library, "fi_strerror", loaded.describe);
    if (!is_loaded)
        return base::Error{base::Status::kUnsupported, "libfabric.so.1 lacks functions of libfabric 1.9 or later"};
    return &loaded;
}

} // namespace gpurun::platform
