// For builds without the headers of libfabric.
#include "platform/fabric/endpoint.hpp"

namespace gpurun::platform {

base::Result<std::unique_ptr<FabricEndpoint>> FabricEndpoint::open(const Options&) {
    return base::Error{base::Status::kUnsupported, "ranks of several nodes need libfabric, and this gpurun was built "
                                                   "without it: install libfabric-dev and build it again"};
}

} // namespace gpurun::platform
