#include "stream.hpp"

#include "stream_keeper.hpp"

#include <atomic>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <unordered_map>

namespace gpurun::python {
namespace {

struct Host {}; // the type of gpurun.HOST

/* The Python objects of our own streams that calls have named, so that what goes on in one can keep it. */
std::mutex owners_mutex; // for Pythons without a GIL
std::unordered_map<gpurun_stream, PyObject*>& owners() {
    static auto* const all = new std::unordered_map<gpurun_stream, PyObject*>;
    return *all;
}

void forget_owner(gpurun_stream stream) {
    const std::scoped_lock lock(owners_mutex);
    owners().erase(stream);
}

/* A stream of the rank's device that the library has made. */
class Stream {
  public:
    Stream() { check(gpurun_stream_create(&stream_), "Stream"); }
    Stream(const Stream&) = delete;
    Stream& operator=(const Stream&) = delete;
    ~Stream() {
        forget_owner(stream_);
        if (stream_ != nullptr && gpurun_finalized() == 0) {
            nb::gil_scoped_release free;
            (void)gpurun_stream_destroy(stream_);
        }
    }
    gpurun_stream get() const { return stream_; }

    void synchronize() const {
        gpurun_status status = GPURUN_OK;
        {
            nb::gil_scoped_release free;
            status = gpurun_stream_synchronize(stream_);
        }
        check(status, "Stream.synchronize");
        let_go_of_passed();
    }

    bool query() const {
        int done = 0;
        check(gpurun_stream_query(stream_, &done), "Stream.query");
        return done != 0;
    }

  private:
    gpurun_stream stream_ = nullptr;
};

gpurun_stream from_number(nb::handle number) {
    const nb::object index = nb::steal(PyNumber_Index(number.ptr()));
    void* const value = index.is_valid() ? PyLong_AsVoidPtr(index.ptr()) : nullptr;
    if (PyErr_Occurred() != nullptr)
        throw nb::python_error();
    return static_cast<gpurun_stream>(value);
}

std::uintptr_t number(const Stream& stream) { return reinterpret_cast<std::uintptr_t>(stream.get()); }

} // namespace

gpurun_stream order_domain(nb::handle stream, gpurun_stream current) {
    if (stream.is_none())
        return current;
    if (nb::isinstance<Host>(stream))
        return GPURUN_HOST;
    if (PyLong_Check(stream.ptr()) != 0)
        return from_number(stream);
    Stream* own = nullptr;
    if (nb::try_cast(stream, own) && own != nullptr) {
        const std::scoped_lock lock(owners_mutex);
        owners()[own->get()] = stream.ptr();
        return own->get();
    }
    if (nb::hasattr(stream, "__cuda_stream__"))
        return from_number(nb::object(stream.attr("__cuda_stream__")())[1]);
    for (const char* attribute : {"cuda_stream", "ptr"})
        if (nb::hasattr(stream, attribute))
            return from_number(nb::object(stream.attr(attribute)));
    PyErr_Format(PyExc_TypeError,
                 "stream: not a stream: pass None, gpurun.HOST, a gpurun.Stream, a stream of PyTorch, CuPy or "
                 "cuda.core, or a handle as an int (it is a %U)",
                 nb::inst_name(stream).ptr());
    throw nb::python_error();
}

nb::object owner_of(gpurun_stream stream) {
    if (stream == GPURUN_HOST)
        return {};
    const std::scoped_lock lock(owners_mutex);
    const auto found = owners().find(stream);
    return found == owners().end() ? nb::object() : nb::borrow(found->second);
}

gpurun_stream current_stream_of(nb::handle object, int device) {
    const nb::dict loaded = nb::borrow<nb::dict>(PyImport_GetModuleDict());
    const nb::object module =
        nb::borrow(nb::handle(reinterpret_cast<PyObject*>(Py_TYPE(object.ptr()))).attr("__module__"));
    const char* library = PyUnicode_Check(module.ptr()) != 0 ? nb::borrow<nb::str>(module).c_str() : "";
    if (std::strncmp(library, "torch", 5) == 0)
        return from_number(nb::object(loaded["torch"].attr("cuda").attr("current_stream")(device).attr("cuda_stream")));
    if (std::strncmp(library, "cupy", 4) == 0)
        return from_number(nb::object(loaded["cupy"].attr("cuda").attr("get_current_stream")(device).attr("ptr")));
    return nullptr;
}

nb::object dlpack_stream(gpurun_stream stream) {
    if (stream == GPURUN_HOST)
        return nb::int_(-1);
    const auto value = reinterpret_cast<std::uintptr_t>(stream);
    return nb::int_(value == 0 ? 1 : value); // 1 is the legacy default stream; 0 is ambiguous there
}

void refuse_emulated(const char* role) {
    static std::atomic<bool> is_cuda{false}; // once it is known; a rank keeps its device
    if (is_cuda.load(std::memory_order_relaxed))
        return;
    gpurun_device_info info = {};
    info.size = sizeof info;
    check(gpurun_device(&info), role);
    if (info.kind == GPURUN_DEVICE_CUDA) {
        is_cuda.store(true, std::memory_order_relaxed);
        return;
    }
    PyErr_Format(PyExc_BufferError,
                 "%s: the memory is on a CUDA device, but this job has emulated devices; start it without "
                 "--device=emulated",
                 role);
    throw nb::python_error();
}

void bind_streams(nb::module_& module) {
    nb::class_<Host>(module, "Host", "The type of gpurun.HOST.").def("__repr__", [](const Host&) {
        return "gpurun.HOST";
    });
    module.attr("HOST") = nb::cast(Host());
    nb::class_<Stream>(module, "Stream", "A stream of the rank's device, made and destroyed by gpurun.")
        .def(nb::init<>())
        .def("synchronize", &Stream::synchronize, "Wait until everything issued in the stream is done.")
        .def("query", &Stream::query, "Whether everything issued in the stream is done.")
        .def_prop_ro("ptr", &number, "The handle: a cudaStream_t on CUDA.")
        .def("__cuda_stream__", [](const Stream& stream) { return nb::make_tuple(0, number(stream)); })
        .def("__repr__", [](const Stream& stream) { return nb::str("<gpurun.Stream {:#x}>").format(number(stream)); });
}

} // namespace gpurun::python
