#include "transfer/channel/own_pages.hpp"

namespace gpurun::transfer {

base::Result<std::unique_ptr<OwnPages>> OwnPages::create(device::Device& device, size_t bytes) {
    const size_t page = platform::page_size();
    GPURUN_ASSIGN(platform::Mapping mapping, platform::Mapping::map_own((bytes + page - 1) / page * page));
    return std::unique_ptr<OwnPages>(new OwnPages(device, std::move(mapping)));
}

OwnPages::~OwnPages() {
    if (pinned_)
        (void)device_.unregister_host(data()); // a failed device keeps it
}

base::Result<void> OwnPages::pin() {
    if (pinned_)
        return {};
    GPURUN_TRY(device_.register_host(data(), mapping_.size()));
    pinned_ = true;
    return {};
}

} // namespace gpurun::transfer
