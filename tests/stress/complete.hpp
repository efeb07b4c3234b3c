// Completing requests, in each of the ways in which that can be done.
#pragma once

#include "stress/program.hpp"

#include <functional>

namespace gpurun::stress {

struct Place;

// Completes all `requests` into the order domain `end`. `settle` is called for each one, with its index.
struct Completing {
    CompleteWay way;
    gpurun_stream end;
    std::vector<gpurun_request> requests;
    std::function<void(size_t index, gpurun_request& request, gpurun_status result,
                       const gpurun_message_status& status)>
        settle;
};
void complete(Completing& all, Place& place);

} // namespace gpurun::stress
