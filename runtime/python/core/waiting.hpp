/*
 * Waiting for operations without the GIL, so that ^C ends a wait of the main thread.
 *
 * Only the main thread runs Python's signal handlers. There, a wait in host order looks for a moment, then gives the
 * operation to the completer and waits for that, which a signal interrupts. If the handler raises, a receive is
 * cancelled, and the rest goes on in the background. Waits for a match in the order of a stream cannot be interrupted.
 */
#pragma once

#include "operation.hpp"

namespace gpurun::python {

bool in_main_thread();

/* Completes the operation into an order domain, and raises its error. */
void wait_for(const OperationPtr& operation, gpurun_stream stream);

/* The same in host order, for so many seconds at most: then it raises TimeoutError, and the operation goes on. Less
 * than 0: for ever. */
void wait_for_at_most(const OperationPtr& operation, double seconds);

/* Whether it is complete, and if so, completes it. Raises its error. */
bool test(const OperationPtr& operation, gpurun_stream stream);

/* Waits for a message by `look`, which gives 1 when it has found one, or else by `wait`. */
gpurun_status wait_for_message(const char* name, gpurun_status (*look)(void* state, int* ret_found),
                               gpurun_status (*wait)(void* state), const std::shared_ptr<void>& state);

/* Makes a call that no request can stand for. In the main thread it is made by another one, so that ^C ends the wait
 * for it; then it goes on. Raises the call's error in the name of `name`. */
gpurun_status call_apart(const char* name, gpurun_status (*call)(void* state), const std::shared_ptr<void>& state);

/* Whether such a call is under way, because ^C has ended the wait for it. Then the rank cannot leave. */
bool is_in_call_apart();

} // namespace gpurun::python
