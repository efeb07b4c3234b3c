// Events of this process. The user's own, made with CUDA's API, can be recorded and awaited like ours.

#include "device/cuda/cuda_device.hpp"

#include "base/format.hpp"

namespace gpurun::device::cuda {

base::Result<Event> CudaDevice::make_event(unsigned flags) {
    const auto current = enter_beside_capture();
    CUevent event = nullptr;
    GPURUN_TRY(driver_.check(driver_.cuEventCreate(&event, flags), "cuEventCreate"));
    events_.insert(event);
    return Event{event};
}

base::Result<Event> CudaDevice::create_event() { return make_event(CU_EVENT_DISABLE_TIMING); }

base::Result<void> CudaDevice::destroy_event(Event event) {
    if (!events_.erase(event.native))
        return base::error(base::Status::kEvent,
                           "{} is not an event of gpurun_event_create(), or it was destroyed before", event.address());
    const auto current = enter_beside_capture();
    return driver_.check(driver_.cuEventDestroy(native(event)), "cuEventDestroy");
}

base::Result<void> CudaDevice::record(Event event, Stream stream) {
    const auto current = enter();
    return driver_.check(driver_.cuEventRecord(native(event), native(stream)), "cuEventRecord", base::Status::kEvent);
}

base::Result<void> CudaDevice::await_event(Stream stream, Event event) {
    const auto current = enter();
    return driver_.check(driver_.cuStreamWaitEvent(native(stream), native(event), CU_EVENT_WAIT_DEFAULT),
                         "cuStreamWaitEvent", base::Status::kEvent);
}

base::Result<bool> CudaDevice::query(Event event) {
    const auto current = enter_beside_capture();
    const CUresult result = driver_.cuEventQuery(native(event));
    if (result == CUDA_ERROR_NOT_READY)
        return false;
    GPURUN_TRY(driver_.check(result, "cuEventQuery", base::Status::kEvent));
    return true;
}

base::Result<void> CudaDevice::synchronize(Event event) {
    const auto current = enter_beside_capture();
    return driver_.check(driver_.cuEventSynchronize(native(event)), "cuEventSynchronize", base::Status::kEvent);
}

} // namespace gpurun::device::cuda
