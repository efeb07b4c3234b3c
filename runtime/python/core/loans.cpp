/*
 * Loans: tensors that are lent, and borrowed ones, which other libraries read by DLPack. gpurun/_loans.py makes of a
 * BorrowedLoan what programs use.
 */
#include "comm.hpp"
#include "export.hpp"
#include "perform.hpp"
#include "stream.hpp"

#include <cstring>
#include <string>

namespace gpurun::python {
namespace {

static_assert(sizeof(dlpack::Tensor) == 48, "DLPack's DLTensor");

std::string text_of(nb::handle name) {
    if (!nb::isinstance<nb::str>(name))
        throw nb::type_error("the name of a tensor is a str");
    Py_ssize_t length = 0;
    const char* const text = PyUnicode_AsUTF8AndSize(name.ptr(), &length);
    if (text == nullptr)
        throw nb::python_error();
    if (std::strlen(text) != static_cast<std::size_t>(length))
        throw nb::value_error("the name of a tensor has no NUL character");
    return text;
}

nb::object lend(const Comm& comm, const nb::sequence& tensors, nb::handle names, const nb::bytes& metadata, int kind,
                int dest, int tag, nb::handle stream) {
    auto kept = std::make_unique<Kept>();
    const bool reads = kind == GPURUN_LOAN_READ_ONLY || kind == GPURUN_LOAN_READ_OR_COPY;
    const Access access = reads ? Access::kRead : Access::kWrite;
    gpurun_stream current = GPURUN_HOST;
    std::vector<dlpack::Tensor> described;
    for (const nb::handle each : tensors) {
        kept->lent.emplace_back(each, access, "tensors", stream, Layout::kTensor);
        described.push_back(kept->lent.back().tensor());
        if (current == GPURUN_HOST)
            current = kept->lent.back().current();
    }
    std::vector<std::string> texts;
    if (!names.is_none())
        for (const nb::handle name : names)
            texts.push_back(text_of(name));
    if (!texts.empty() && texts.size() != described.size())
        throw nb::value_error("names: give as many as there are tensors, or None");
    std::vector<const char*> pointers;
    for (const std::string& text : texts)
        pointers.push_back(text.c_str());
    const gpurun_stream order = order_domain(stream, current);
    return nb::cast(Request(started("lend", order, std::move(kept), [&](gpurun_request* ret) {
        return gpurun_lend_tensors(reinterpret_cast<const DLTensor*>(described.data()),
                                   pointers.empty() ? nullptr : pointers.data(), described.size(), metadata.c_str(),
                                   metadata.size(), static_cast<gpurun_loan_kind>(kind), dest, tag, comm.handle(),
                                   order, ret);
    })));
}

/* A tensor of a loan, for other libraries. It keeps the loan, so that its memory stays. */
struct Tensor {
    dlpack::Tensor description = {};
    std::vector<std::int64_t> shape;
    std::vector<std::int64_t> strides;
    bool read_only = false;
    nb::object loan;
};

nb::tuple shape_of(const Tensor& tensor) {
    nb::list extents;
    for (const std::int64_t extent : tensor.shape)
        extents.append(extent);
    return nb::tuple(extents);
}

struct BorrowedLoan {
    gpurun_loan handle = GPURUN_LOAN_NULL;
    gpurun_stream order = GPURUN_HOST;
    nb::object stream; // that it is, a gpurun.Stream, or none
    Status status;
    gpurun_loan_kind kind = GPURUN_LOAN_READ_ONLY;
    const dlpack::Tensor* tensors = nullptr;
    const char* const* names = nullptr;
    std::size_t count = 0;
    void* buffer = nullptr; // of a loan without tensors
    std::size_t bytes = 0;

    bool is_open() const { return handle.id != 0; }
};

struct Search {
    int source;
    int tag;
    gpurun_comm comm;
    gpurun_message_status status;
};

/* ^C can end the wait for a message, after which it is borrowed at once. */
BorrowedLoan borrow(const Comm& comm, int source, int tag, nb::handle stream) {
    BorrowedLoan loan;
    loan.order = order_domain(stream, GPURUN_HOST);
    loan.stream = owner_of(loan.order);
    if (in_main_thread()) {
        const auto search = std::make_shared<Search>(Search{source, tag, comm.handle(), {}});
        check(wait_for_message(
                  "borrow",
                  [](void* state, int* ret_found) {
                      auto& s = *static_cast<Search*>(state);
                      return gpurun_iprobe(s.source, s.tag, s.comm, ret_found, &s.status);
                  },
                  [](void* state) {
                      auto& s = *static_cast<Search*>(state);
                      return gpurun_probe(s.source, s.tag, s.comm, &s.status);
                  },
                  search),
              "borrow");
    }
    call_now("borrow",
             [&] { return gpurun_borrow(source, tag, comm.handle(), loan.order, &loan.handle, &loan.status.value); });
    if (!loan.is_open())
        return loan;
    const DLTensor* tensors = nullptr;
    check(gpurun_loan_buffer(loan.handle, &loan.buffer, &loan.bytes, &loan.kind), "borrow");
    check(gpurun_loan_tensors(loan.handle, &tensors, &loan.names, &loan.count), "borrow");
    loan.tensors = reinterpret_cast<const dlpack::Tensor*>(tensors);
    return loan;
}

void check_open(const BorrowedLoan& loan) {
    if (!loan.is_open())
        raise(GPURUN_ERR_LOAN, "Loan", "it has been given back: use its tensors before that");
}

Tensor tensor_of(const BorrowedLoan& loan, std::size_t index, nb::object owner) {
    check_open(loan);
    Tensor made;
    made.loan = std::move(owner);
    made.read_only = loan.kind == GPURUN_LOAN_READ_ONLY || loan.kind == GPURUN_LOAN_COPY;
    if (loan.count != 0) {
        made.description = loan.tensors[index];
        const auto extents = static_cast<std::size_t>(made.description.ndim);
        made.shape.assign(made.description.shape, made.description.shape + extents);
        if (made.description.strides != nullptr)
            made.strides.assign(made.description.strides, made.description.strides + extents);
    } else {
        gpurun_device_info info = {};
        info.size = sizeof info;
        check(gpurun_device(&info), "Loan");
        const bool cuda = info.kind == GPURUN_DEVICE_CUDA;
        made.shape = {static_cast<std::int64_t>(loan.bytes)};
        made.description.data = loan.buffer;
        made.description.device = {cuda ? dlpack::kCuda : dlpack::kCpu, cuda ? info.ordinal : 0};
        made.description.ndim = 1;
        made.description.dtype = {dlpack::kUInt, 8, 1};
    }
    return made;
}

nb::object new_tensor(const BorrowedLoan& loan, std::size_t index, nb::object owner) {
    nb::object object = nb::cast(tensor_of(loan, index, std::move(owner)));
    auto& tensor = nb::cast<Tensor&>(object); // where it stays
    tensor.description.shape = tensor.shape.data();
    tensor.description.strides = tensor.strides.empty() ? nullptr : tensor.strides.data();
    return object;
}

nb::list names_of(const BorrowedLoan& loan) {
    check_open(loan);
    nb::list names;
    for (std::size_t i = 0; i < loan.count; ++i)
        names.append(nb::str(loan.names[i]));
    return names;
}

nb::bytes metadata_of(const BorrowedLoan& loan) {
    check_open(loan);
    const void* metadata = nullptr;
    std::size_t bytes = 0;
    check(gpurun_loan_metadata(loan.handle, &metadata, &bytes), "Loan.metadata");
    return nb::bytes(metadata, bytes);
}

void give_back(BorrowedLoan& loan, nb::handle stream) {
    const gpurun_stream order = order_domain(stream, loan.order);
    call_now("give_back", [&] { return gpurun_give_back(&loan.handle, order); });
}

} // namespace

void bind_loans(nb::module_& module, CommClass& comm) {
    module.attr("READ_ONLY") = static_cast<int>(GPURUN_LOAN_READ_ONLY);
    module.attr("EXCLUSIVE") = static_cast<int>(GPURUN_LOAN_EXCLUSIVE);
    module.attr("SHARED") = static_cast<int>(GPURUN_LOAN_SHARED);
    module.attr("READ_OR_COPY") = static_cast<int>(GPURUN_LOAN_READ_OR_COPY);
    module.attr("COPY") = static_cast<int>(GPURUN_LOAN_COPY);
    nb::class_<Tensor>(module, "Tensor", "A tensor of a loan, for from_dlpack() of NumPy, PyTorch and others.")
        .def_prop_ro("shape", &shape_of)
        .def("__dlpack__",
             [](nb::handle self, const nb::kwargs& wishes) {
                 const auto& tensor = nb::cast<Tensor&>(self);
                 return export_tensor(self, tensor.description, tensor.read_only, wishes);
             })
        .def("__dlpack_device__",
             [](const Tensor& t) { return nb::make_tuple(int{t.description.device.type}, t.description.device.id); })
        .def("__repr__", [](const Tensor& t) { return nb::str("<gpurun.Tensor of shape {}>").format(shape_of(t)); });
    nb::class_<BorrowedLoan>(module, "BorrowedLoan")
        .def_prop_ro("is_open", &BorrowedLoan::is_open)
        .def_prop_ro("status", [](const BorrowedLoan& loan) { return loan.status; })
        .def_prop_ro("kind", [](const BorrowedLoan& loan) { return static_cast<int>(loan.kind); })
        .def_prop_ro("count", [](const BorrowedLoan& l) { return l.count == 0 && l.bytes != 0 ? 1 : l.count; })
        .def("names", &names_of)
        .def("metadata", &metadata_of)
        .def("tensor", &new_tensor, "index"_a, "owner"_a)
        .def("give_back", &give_back, "stream"_a.none());
    comm.def("lend_tensors", &lend, "tensors"_a, "names"_a.none(), "metadata"_a, "kind"_a, "dest"_a, "tag"_a,
             "stream"_a.none(), "What lend() calls.");
    comm.def("borrow_loan", &borrow, "source"_a, "tag"_a, "stream"_a.none(), "What borrow() calls.");
}

} // namespace gpurun::python
