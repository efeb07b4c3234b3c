/*
 * A thread that waits for operations, so that the main thread can be interrupted, and futures be completed.
 *
 * It is in gpurun_waitany(), for the operations that it was given and for a message from this rank to itself, by which
 * it is told of new ones. So it uses no time while nothing happens. It takes the GIL only to call callbacks and to let
 * go of Python objects, never while it is in the library. It is made when it is needed first.
 *
 * Each joint job that the rank is in has such a thread, too, since no call completes requests of two jobs. A request
 * does not say which job it is of: it is given to the first thread, and each passes on what is not of its job.
 */
#pragma once

#include "operation.hpp"

namespace gpurun::python {

/* With the GIL. From now on the completer completes it into host order, and the caller does not touch its request.
 * Raises where there is no completer any more: the rank leaves, or this process was forked from it. */
void complete_in_background(const OperationPtr& operation);

/* Calls `callback()` once the operation is complete: at once if it is, else in the completer's thread. With the GIL. */
void when_complete(const OperationPtr& operation, nb::handle callback);

/* Takes such a callback back, if it has not been called. With the GIL. */
void forget_callback(Operation& operation, nb::handle callback);

/* For the requests of a joint job, until stop_those_of() is called before its communicator is freed; that is false if
 * the communicator is another one. Without the GIL, and not in one of the threads. */
gpurun_status complete_those_of(gpurun_comm joint);
bool stop_those_of(gpurun_comm joint);
bool completes_those_of(gpurun_comm joint);

/* Ends the threads, before the rank leaves, or Python does. What is not complete by then, or given later, fails with
 * GPURUN_ERR_FINALIZED, and keeps its buffers. Without the GIL, and not in one of the threads. */
void stop_completers();
bool completers_are_stopped();

/* Raises in such a thread, where the caller is a callback of a request: `function` would wait for the thread itself. */
void refuse_in_callback(const char* function);

} // namespace gpurun::python
