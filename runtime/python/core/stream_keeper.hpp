/*
 * Buffers of calls that have returned, while a stream still uses them.
 *
 * A call in the order of a stream returns before its message has moved. Memory that a library frees in the order of the
 * same stream needs nothing. All other memory is kept until an event behind the call has completed, which later calls
 * look for. The event of a captured call never completes: its graph may run again, so the memory stays.
 */
#pragma once

#include "operation.hpp"

namespace gpurun::python {

/* With the GIL, after the call has been enqueued. */
void keep_until_passed(gpurun_stream stream, std::unique_ptr<Kept> kept);

/* Lets go of what is not used any more. With the GIL. */
void let_go_of_passed();

} // namespace gpurun::python
