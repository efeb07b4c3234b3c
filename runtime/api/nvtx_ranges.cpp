#include "api/ranges.hpp"

#include "base/collectives.hpp"
#include "comm/datatype.hpp"

#include <nvtx3/nvToolsExt.h>

#include <algorithm>
#include <array>
#include <string_view>

namespace gpurun::api {

namespace {

// By the beginning of their names; 0 is no category.
struct Category {
    const char* name;
    std::array<std::string_view, 4> prefixes; // the rest empty, which nothing begins with
};
constexpr Category kCategories[] = {
    {"completion", {"gpurun_wait", "gpurun_test"}},
    {"start", {"gpurun_i", "gpurun_start", "gpurun_send_init", "gpurun_recv_init"}},
    {"message", {"gpurun_send", "gpurun_ssend", "gpurun_recv", "gpurun_mrecv"}},
    {"probe", {"gpurun_probe", "gpurun_mprobe"}},
    {"memory", {"gpurun_malloc", "gpurun_free", "gpurun_mem"}},
};

constexpr uint32_t kCollectives = std::size(kCategories) + 1;

bool is_collective(std::string_view name) {
    name.remove_prefix(std::string_view("gpurun_").size());
    return std::any_of(base::kCollectiveNames.begin(), base::kCollectiveNames.end(), [&](std::string_view collective) {
        return name == collective || (name.starts_with('i') && name.substr(1) == collective);
    });
}

uint32_t category_of(std::string_view name) {
    if (is_collective(name))
        return kCollectives;
    for (uint32_t i = 0; i < std::size(kCategories); ++i)
        for (const std::string_view prefix : kCategories[i].prefixes)
            if (!prefix.empty() && name.starts_with(prefix))
                return i + 1;
    return 0;
}

// Null if no tool is there. NVTX looks for one at its first call, once.
nvtxDomainHandle_t domain() {
    static const nvtxDomainHandle_t created = [] {
        const nvtxDomainHandle_t made = nvtxDomainCreateA("gpurun");
        for (uint32_t i = 0; made != nullptr && i < std::size(kCategories); ++i)
            nvtxDomainNameCategoryA(made, i + 1, kCategories[i].name);
        if (made != nullptr)
            nvtxDomainNameCategoryA(made, kCollectives, "collective");
        return made;
    }();
    return created;
}

} // namespace

bool has_range_reader() { return domain() != nullptr; }

void begin_range(const char* name, const base::CallArguments& arguments) {
    nvtxEventAttributes_t range{};
    range.version = NVTX_VERSION;
    range.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
    range.category = category_of(name);
    range.messageType = NVTX_MESSAGE_TYPE_ASCII;
    range.message.ascii = name;
    if (arguments.type != base::CallArguments::kNone)
        if (const auto bytes = comm::message_bytes(arguments.count, arguments.type)) {
            range.payloadType = NVTX_PAYLOAD_TYPE_UNSIGNED_INT64;
            range.payload.ullValue = bytes.value();
        }
    nvtxDomainRangePushEx(domain(), &range);
}

void end_range() { nvtxDomainRangePop(domain()); }

} // namespace gpurun::api
