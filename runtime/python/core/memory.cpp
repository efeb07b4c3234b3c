/*
 * Memory of the rank's device, for programs without a library that allocates there, and copies.
 */
#include "buffer.hpp"
#include "export.hpp"
#include "stream.hpp"
#include "stream_keeper.hpp"

#include <nanobind/stl/optional.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>

namespace gpurun::python {
namespace {

class Memory {
  public:
    Memory(std::size_t size, bool pinned) : size_(size), shape_(static_cast<std::int64_t>(size)) {
        check(pinned ? gpurun_malloc_host(&data_, size) : gpurun_malloc(&data_, size), "Memory");
        gpurun_device_info info = {};
        info.size = sizeof info;
        check(gpurun_device(&info), "Memory");
        ordinal_ = info.ordinal;
        cuda_ = info.kind == GPURUN_DEVICE_CUDA;
        pinned_ = pinned;
    }
    Memory(const Memory&) = delete;
    Memory& operator=(const Memory&) = delete;
    ~Memory() {
        if (gpurun_finalized() != 0)
            return;
        const nb::gil_scoped_release free;
        (void)gpurun_free(data_);
    }

    std::size_t size() const { return size_; }
    std::uintptr_t ptr() const { return reinterpret_cast<std::uintptr_t>(data_); }
    bool on_gpu() const { return cuda_ && !pinned_; }
    int ordinal() const { return ordinal_; }
    bool pinned() const { return pinned_; }
    void* data() const { return data_; }
    std::int64_t* shape() { return &shape_; }

  private:
    void* data_ = nullptr;
    std::size_t size_;
    std::int64_t shape_;
    int ordinal_ = 0;
    bool cuda_ = false;
    bool pinned_ = false;
};

nb::tuple device_of(const Memory& memory) {
    const int type = memory.on_gpu() ? dlpack::kCuda : dlpack::kCpu;
    return nb::make_tuple(type, memory.on_gpu() ? memory.ordinal() : 0);
}

/* Memory of emulated devices is memory of the CPU to all libraries. Nothing is enqueued that a stream must wait for. */
nb::object to_dlpack(nb::handle self, const nb::kwargs& wishes) {
    auto& memory = nb::cast<Memory&>(self);
    const int type = memory.on_gpu() ? dlpack::kCuda : dlpack::kCpu;
    return export_tensor(self,
                         {memory.data(),
                          {type, memory.on_gpu() ? memory.ordinal() : 0},
                          1,
                          {dlpack::kUInt, 8, 1},
                          memory.shape(),
                          nullptr,
                          0},
                         false, wishes);
}

void copy(nb::handle into, nb::handle from, nb::handle stream) {
    auto kept = std::make_unique<Kept>();
    kept->first = Buffer(into, Access::kWrite, "into", stream);
    kept->second = Buffer(from, Access::kRead, "source", stream);
    const Buffer& to = kept->first;
    const Buffer& source = kept->second;
    if (to.bytes() != source.bytes())
        raise(GPURUN_ERR_COUNT, "copy", "the buffers have different lengths; copy as many bytes as both have");
    const gpurun_stream order = order_domain(stream, to.current() != GPURUN_HOST ? to.current() : source.current());
    // Without a stream, memory of the host is used in the order of the calling thread too.
    const bool waits = stream.is_none() && (to.current() == GPURUN_HOST || source.current() == GPURUN_HOST);
    gpurun_status status = GPURUN_OK;
    {
        const nb::gil_scoped_release free;
        status = gpurun_memcpy(to.data(), source.data(), to.bytes(), order);
        if (status == GPURUN_OK && waits && order != GPURUN_HOST)
            status = gpurun_stream_synchronize(order);
    }
    check(status, "copy");
    keep_until_passed(order, std::move(kept));
}

/* In pieces, between which signal handlers run: ^C ends it. */
void unregister(nb::handle object, std::optional<double> timeout) {
    constexpr double kPieceMs = 100;
    const Buffer buffer(object, Access::kRead, "buffer", nb::none());
    const double end = timeout ? gpurun_wtime() + *timeout : 0;
    for (;;) {
        const double left_ms = timeout ? std::max(0.0, (end - gpurun_wtime()) * 1e3) : kPieceMs;
        gpurun_status status = GPURUN_OK;
        {
            const nb::gil_scoped_release wait;
            status = gpurun_unregister(buffer.data(), static_cast<int>(std::ceil(std::min(left_ms, kPieceMs))));
        }
        if (status != GPURUN_ERR_TIMEOUT || left_ms == 0)
            return check(status, "unregister");
        if (PyErr_CheckSignals() != 0)
            throw nb::python_error();
    }
}

} // namespace

void bind_memory(nb::module_& module) {
    nb::class_<Memory>(
        module, "Memory",
        "Bytes on the rank's device, or pinned on the host, as an array of uint8 for numpy.from_dlpack(), "
        "torch.from_dlpack()\nand the like. On emulated devices it is memory of the CPU to them.")
        .def(nb::init<std::size_t, bool>(), "size"_a, "pinned"_a = false)
        .def_prop_ro("size", &Memory::size, "Bytes.")
        .def_prop_ro("ptr", &Memory::ptr, "The address.")
        .def("__len__", &Memory::size)
        .def("__dlpack_device__", &device_of)
        .def("__dlpack__", &to_dlpack)
        .def("__repr__", [](const Memory& m) {
            return nb::str("<gpurun.Memory {} bytes {}>").format(m.size(), m.pinned() ? "pinned" : "on the device");
        });
    module.def("copy", &copy, "into"_a, "source"_a, nb::kw_only(), "stream"_a = nb::none(),
               "Copy between two buffers of this rank, on the host or a device, in the order of `stream`.\n"
               "Without one, a copy between host and device is done when the call returns.");
    module.def(
        "unregister", &unregister, "buffer"_a, "timeout"_a = nb::none(),
        "Wait until no other rank has the allocation of `buffer` mapped, so that freeing it frees the memory.\n"
        "timeout: seconds; 0 only asks. Raises TimedOutError if some rank still has it, which the text names, and\n"
        "LoanError if some of it is lent, or it is borrowed.");
}

} // namespace gpurun::python
