// Communicators of tests that have a topology.
#pragma once

#include "communicators.hpp"

#include <vector>

namespace gpurun::test {

// As equal as can be.
inline std::vector<int> dims_of(int ranks, int ndims) {
    std::vector<int> dims(static_cast<size_t>(ndims), 0);
    REQUIRE_OK(gpurun_dims_create(ranks, ndims, dims.data()));
    return dims;
}

inline Comm cart(const std::vector<int>& dims, const std::vector<int>& periods) {
    gpurun_comm made = GPURUN_COMM_WORLD;
    REQUIRE_OK(
        gpurun_cart_create(GPURUN_COMM_WORLD, static_cast<int>(dims.size()), dims.data(), periods.data(), 1, &made));
    return Comm(made);
}

inline Comm graph(const std::vector<int>& sources, const std::vector<int>& destinations) {
    gpurun_comm made = GPURUN_COMM_WORLD;
    REQUIRE_OK(gpurun_dist_graph_create_adjacent(GPURUN_COMM_WORLD, static_cast<int>(sources.size()), sources.data(),
                                                 static_cast<int>(destinations.size()), destinations.data(), 1, &made));
    return Comm(made);
}

} // namespace gpurun::test
