/*
 * What the methods for collectives have in common.
 */
#pragma once

#include "comm.hpp"
#include "perform.hpp"
#include "stream.hpp"

#include <array>
#include <type_traits>

namespace gpurun::python {

/* One side of a collective: a buffer, gpurun.IN_PLACE, or None where this rank has none. */
struct Side {
    void* data = nullptr;
    std::size_t count = 0;
    gpurun_datatype type = GPURUN_BYTE;
    gpurun_stream current = GPURUN_HOST;
    bool in_place = false;
    bool none = true;
};

struct InPlace {}; // the type of gpurun.IN_PLACE

Side side(Buffer& buffer, nb::handle object, Access access, const char* role, nb::handle stream);

/* The two sides of a collective and its order domain. A side that is in place has the other's type. */
struct Sides {
    std::unique_ptr<Kept> kept = std::make_unique<Kept>();
    Side send;
    Side recv;
    gpurun_stream order = GPURUN_HOST;

    Sides(nb::handle send, nb::handle recv, nb::handle stream);
};

/* A part of a buffer for each of `ranks`. Raises ArgumentError if it is not a whole number of elements. */
std::size_t part(const char* name, const Side& side, int ranks);

/* The elements of both sides of a reduction, which must be as many and of one type. */
void same_on_both(const char* name, const Sides& sides, std::size_t send_parts);

/* Counts of a v-collective as an array that stays where it is; null for None. */
const std::size_t* sizes(std::vector<std::size_t>& ret, nb::handle counts, const char* name, int ranks);

/* Raises ArgumentError if blocks of these lengths, at these displacements, end behind the buffer. */
void fits(const char* name, const Side& side, const std::size_t* counts, const std::size_t* displacements, int ranks);

gpurun_op operation(nb::handle op);

/* A method in its three forms: name, iname and name_init; the third only if `kPrepared`. */
template <typename Method, typename... Extra>
void bind_forms(CommClass& comm, const std::array<const char*, 3>& names, Method method, const char* text,
                const Extra&... extra) {
    static constexpr const char* kStartText =
        "The same, started: returns a Request at once. The buffers must not be used before it is complete.";
    static constexpr const char* kPrepareText = "The same, prepared: a Request that Request.start() starts.";
    comm.def(names[0], method(std::integral_constant<Form, Form::kNow>()), extra..., text);
    comm.def(names[1], method(std::integral_constant<Form, Form::kStart>()), extra..., kStartText);
    if (names[2] != nullptr)
        comm.def(names[2], method(std::integral_constant<Form, Form::kPrepare>()), extra..., kPrepareText);
}

} // namespace gpurun::python
