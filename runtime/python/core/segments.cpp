/*
 * Parts of shared memory, for gpurun.multiprocessing (_memory.py), which maps it.
 *
 * A Segment is what one message has of a mapping: arrays are in it, and with the last of them its owner goes, by which
 * other processes learn that the memory is no longer in use.
 */
#include "python.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

namespace gpurun::python {
namespace {

constexpr std::size_t kAlignment = 64; // of a message's parts

std::size_t aligned(std::size_t length) { return (length + kAlignment - 1) / kAlignment * kAlignment; }

/* The memory of objects, for as long as this lives. */
class Views {
  public:
    void add(nb::handle object, int flags) {
        views_.emplace_back();
        if (PyObject_GetBuffer(object.ptr(), &views_.back(), flags) != 0) {
            views_.pop_back();
            throw nb::python_error();
        }
    }
    Views() = default;
    Views(const Views&) = delete;
    Views& operator=(const Views&) = delete;
    ~Views() {
        for (Py_buffer& view : views_)
            PyBuffer_Release(&view);
    }

    const std::vector<Py_buffer>& all() const { return views_; }

  private:
    std::vector<Py_buffer> views_;
};

class Segment {
  public:
    Segment(nb::handle mapping, std::size_t size, nb::object owner) : size_(size), owner_(std::move(owner)) {
        mapping_.add(mapping, PyBUF_WRITABLE);
        if (size > static_cast<std::size_t>(mapping_.all()[0].len))
            throw nb::value_error("the shared memory is shorter than the message says");
    }

    void* data() const { return mapping_.all()[0].buf; }
    std::uintptr_t address() const { return reinterpret_cast<std::uintptr_t>(data()); }
    std::size_t size() const { return size_; }
    nb::object owner() const { return owner_; }

  private:
    Views mapping_;
    std::size_t size_;
    nb::object owner_;
};

int get_segment(PyObject* self, Py_buffer* view, int flags) {
    const auto& segment = *nb::inst_ptr<Segment>(self);
    return PyBuffer_FillInfo(view, self, segment.data(), static_cast<Py_ssize_t>(segment.size()), 0, flags);
}

std::array<PyType_Slot, 2> segment_slots = {{{Py_bf_getbuffer, reinterpret_cast<void*>(get_segment)}, {0, nullptr}}};

void write_parts(nb::handle mapping, nb::handle parts) {
    Views into;
    into.add(mapping, PyBUF_WRITABLE);
    Views from;
    std::size_t size = 0;
    for (nb::handle part : parts) {
        from.add(part, PyBUF_SIMPLE);
        size += aligned(static_cast<std::size_t>(from.all().back().len));
    }
    if (size > static_cast<std::size_t>(into.all()[0].len))
        throw nb::value_error("the message is longer than its memory");
    const nb::gil_scoped_release free;
    auto* place = static_cast<std::byte*>(into.all()[0].buf);
    for (const Py_buffer& view : from.all()) {
        std::memcpy(place, view.buf, static_cast<std::size_t>(view.len));
        place += aligned(static_cast<std::size_t>(view.len));
    }
}

} // namespace

void bind_segments(nb::module_& module) {
    nb::class_<Segment>(module, "Segment", nb::type_slots(segment_slots.data()), nb::is_weak_referenceable(),
                        "What a message has of shared memory; `owner` goes with it.")
        .def(nb::init<nb::handle, std::size_t, nb::object>(), "mapping"_a, "size"_a, "owner"_a)
        .def("__len__", &Segment::size)
        .def_prop_ro("address", &Segment::address)
        .def_prop_ro("owner", &Segment::owner);
    module.def("write_parts", &write_parts, "mapping"_a, "parts"_a,
               "Copies the parts of a message, each to the next multiple of 64.");
}

} // namespace gpurun::python
