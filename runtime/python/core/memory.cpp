/*
 * Memory of the rank's device, for programs without a library that allocates there, and copies.
 */
#include "buffer.hpp"
#include "stream.hpp"
#include "stream_keeper.hpp"

#include <memory>

namespace gpurun::python {
namespace {

class Memory {
  public:
    Memory(std::size_t size, bool pinned) : size_(size) {
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

  private:
    void* data_ = nullptr;
    std::size_t size_;
    int ordinal_ = 0;
    bool cuda_ = false;
    bool pinned_ = false;
};

nb::tuple device_of(const Memory& memory) {
    const int type = memory.on_gpu() ? dlpack::kCuda : dlpack::kCpu;
    return nb::make_tuple(type, memory.on_gpu() ? memory.ordinal() : 0);
}

struct Export { // of the memory, to another library
    dlpack::ManagedVersioned managed = {};
    std::int64_t shape = 0;
    PyObject* owner = nullptr;
};

void end_export(dlpack::ManagedVersioned* managed) {
    auto* const made = static_cast<Export*>(managed->context);
    const nb::gil_scoped_acquire hold;
    Py_DECREF(made->owner);
    delete made;
}

void drop_capsule(PyObject* capsule) {
    if (PyCapsule_IsValid(capsule, "dltensor_versioned") != 0)
        end_export(static_cast<dlpack::ManagedVersioned*>(PyCapsule_GetPointer(capsule, "dltensor_versioned")));
}

/* Memory of emulated devices is memory of the CPU to all libraries. Nothing is enqueued that a stream must wait for. */
nb::object to_dlpack(nb::handle self, const nb::kwargs&) {
    const auto& memory = nb::cast<Memory&>(self);
    auto made = std::make_unique<Export>();
    made->shape = static_cast<std::int64_t>(memory.size());
    made->managed = {{dlpack::kMajor, 0}, made.get(), end_export, 0, {}};
    made->managed.tensor = {memory.data(),
                            {memory.on_gpu() ? dlpack::kCuda : dlpack::kCpu, memory.on_gpu() ? memory.ordinal() : 0},
                            1,
                            {dlpack::kUInt, 8, 1},
                            &made->shape,
                            nullptr,
                            0};
    nb::object capsule = nb::steal(PyCapsule_New(&made->managed, "dltensor_versioned", drop_capsule));
    made.release()->owner = Py_NewRef(self.ptr());
    return capsule;
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
    gpurun_status status = GPURUN_OK;
    {
        const nb::gil_scoped_release free;
        status = gpurun_memcpy(to.data(), source.data(), to.bytes(), order);
    }
    check(status, "copy");
    keep_until_passed(order, std::move(kept));
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
               "Copy between two buffers of this rank, on the host or a device, in the order of `stream`.");
}

} // namespace gpurun::python
