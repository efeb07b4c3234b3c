// sendrecv_replace: copies the contents, in the buffer's own order domain, and sends the copy. That is in the same kind
// of memory, and is freed in the same order domain; on a stream of a device without ordered memory it is host memory.
#include "comm/point_to_point.hpp"

#include "base/format.hpp"
#include "device/capability/ordered_memory.hpp"

#include <cstdlib>

namespace gpurun::comm {

using base::Result;
using transfer::Operand;

namespace {

class Aside {
  public:
    static Result<Aside> make(Engine& engine, const Operand& original) {
        device::Device& device = engine.resources().device;
        Aside aside(engine);
        aside.copy_ = original;
        device::OrderedMemory* const ordered = device.ordered_memory();
        if (original.in_host_memory() || (original.on_stream() && ordered == nullptr)) {
            aside.copy_.address = static_cast<std::byte*>(std::malloc(original.bytes));
            aside.copy_.where = device::Buffer{};
            if (aside.copy_.address == nullptr)
                return base::error(base::Status::kMemory, "no memory for a copy of the {} bytes to be replaced",
                                   original.bytes);
            return aside;
        }
        Result<void*> memory = original.on_stream() ? ordered->allocate_ordered(original.bytes, original.stream)
                                                    : device.allocate(original.bytes);
        if (!memory)
            return std::move(memory).error();
        aside.copy_.address = static_cast<std::byte*>(*memory);
        GPURUN_ASSIGN(aside.copy_.where, device.describe(*memory, original.bytes));
        return aside;
    }
    Aside(Aside&& other) noexcept : engine_(other.engine_), copy_(other.copy_) { other.copy_.address = nullptr; }
    Aside(const Aside&) = delete;
    Aside& operator=(const Aside&) = delete;
    ~Aside() {
        if (copy_.address != nullptr)
            release(); // a device that fails here keeps it
    }

    const Operand& operand() const { return copy_; }

  private:
    explicit Aside(Engine& engine) : engine_(engine) {}

    void release() {
        device::Device& device = engine_.resources().device;
        if (copy_.in_host_memory()) {
            if (!copy_.on_stream())
                std::free(copy_.address);
            else
                (void)device.call_host(copy_.stream, std::free, copy_.address);
        } else if (copy_.on_stream()) {
            (void)device.ordered_memory()->free_ordered(copy_.address, copy_.stream);
        } else {
            (void)engine_.memory().free(copy_.where, copy_.address);
        }
    }

    Engine& engine_;
    Operand copy_;
};

} // namespace

Result<Arrived> sendrecv_replace(Engine& engine, const Communicator& comm, const Outbound& out, const Inbound& in) {
    if (out.buffer.bytes == 0 || out.dest == kProcNull || in.source == kProcNull)
        return sendrecv(engine, comm, out, in); // nothing is both read and written
    if (out.buffer.captured())
        return base::error(base::Status::kUnsupported,
                           "gpurun_sendrecv_replace() cannot be captured into a graph, which "
                           "would need memory of its own: use gpurun_sendrecv() and two "
                           "buffers");
    GPURUN_ASSIGN(const Aside aside, Aside::make(engine, out.buffer));
    GPURUN_TRY(copy(engine, comm, aside.operand(), out.buffer));
    return sendrecv(engine, comm, Outbound{aside.operand(), out.dest, out.tag}, in);
}

} // namespace gpurun::comm
