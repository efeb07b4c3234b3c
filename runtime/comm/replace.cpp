// sendrecv_replace: copies the contents, in the buffer's own order domain, and sends the copy. That is in the same kind
// of memory. Up to kMostScratch it is scratch memory, which is there already, and which peers can map; a longer one is
// freed in the same order domain, and on a stream of a device without ordered memory it is host memory.
#include "comm/point_to_point.hpp"

#include "base/format.hpp"
#include "device/capability/ordered_memory.hpp"

#include <cstdlib>
#include <cstring>
#include <utility>

namespace gpurun::comm {

using base::Result;
using transfer::Operand;

namespace {

using Kind = transfer::ScratchPool::Kind;

constexpr size_t kMostScratch = size_t{64} << 20; // which the rank keeps

class Aside {
  public:
    static Result<Aside> make(Engine& engine, const Operand& original) {
        Aside aside(engine);
        aside.copy_ = original;
        aside.copy_.address = nullptr;
        if (original.bytes <= kMostScratch)
            GPURUN_TRY(aside.take_scratch());
        else if (original.in_host_memory() || (original.on_stream() && aside.ordered_memory() == nullptr))
            GPURUN_TRY(aside.allocate_host());
        else
            GPURUN_TRY(aside.allocate_device());
        return aside;
    }
    Aside(Aside&& other) noexcept
        : engine_(other.engine_), copy_(other.copy_), scratch_(std::exchange(other.scratch_, nullptr)) {
        other.copy_.address = nullptr;
    }
    Aside(const Aside&) = delete;
    Aside& operator=(const Aside&) = delete;
    ~Aside() {
        if (scratch_ != nullptr)
            engine_.messages().give_back(*scratch_, copy_);
        else if (copy_.address != nullptr)
            release(); // a device that fails here keeps it
    }

    const Operand& operand() const { return copy_; }

  private:
    explicit Aside(Engine& engine) : engine_(engine) {}

    device::Device& device() const { return engine_.resources().device; }
    device::OrderedMemory* ordered_memory() const { return device().ordered_memory(); }

    Result<void> take_scratch() {
        const bool pageable = copy_.where.placement == device::Placement::kPageable;
        const Kind kind = !copy_.in_host_memory() ? Kind::kDevice : pageable ? Kind::kHost : Kind::kPinned;
        auto taken = engine_.messages().take_scratch(kind, copy_.bytes, copy_);
        if (!taken)
            return taken.error().status == base::Status::kMemory ? no_memory() : std::move(taken).error();
        scratch_ = *taken;
        copy_.address = scratch_->data;
        copy_.where = scratch_->where;
        return {};
    }

    Result<void> allocate_host() {
        copy_.address = static_cast<std::byte*>(std::malloc(copy_.bytes));
        copy_.where = device::Buffer{};
        return copy_.address != nullptr ? Result<void>() : no_memory();
    }

    Result<void> allocate_device() {
        void* memory = nullptr;
        if (copy_.on_stream()) {
            GPURUN_ASSIGN(memory, ordered_memory()->allocate_ordered(copy_.bytes, copy_.stream));
        } else {
            GPURUN_ASSIGN(memory, device().allocate(copy_.bytes));
        }
        copy_.address = static_cast<std::byte*>(memory);
        GPURUN_ASSIGN(copy_.where, device().describe(memory, copy_.bytes));
        return {};
    }

    base::Error no_memory() const {
        return base::error(base::Status::kMemory, "no memory for a copy of the {} bytes to be replaced", copy_.bytes);
    }

    void release() {
        if (copy_.in_host_memory()) {
            if (!copy_.on_stream())
                std::free(copy_.address);
            else
                (void)device().call_host(copy_.stream, std::free, copy_.address);
        } else if (copy_.on_stream()) {
            (void)ordered_memory()->free_ordered(copy_.address, copy_.stream);
        } else {
            (void)engine_.memory().free(copy_.where, copy_.address);
        }
    }

    Engine& engine_;
    Operand copy_;
    transfer::ScratchPool::Block* scratch_ = nullptr;
};

// By the CPU, or by the stream between device memory; else as a message to this rank itself.
Result<void> fill(Engine& engine, const Communicator& comm, const Operand& into, const Operand& from) {
    if (into.by_cpu() && from.by_cpu()) {
        std::memcpy(into.address, from.address, from.bytes);
        return {};
    }
    if (from.on_stream() && from.by_device() && !from.in_host_memory() && !into.in_host_memory())
        return engine.resources().device.copy(into.address, from.address, from.bytes, from.stream);
    return copy(engine, comm, into, from);
}

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
    GPURUN_TRY(fill(engine, comm, aside.operand(), out.buffer));
    return sendrecv(engine, comm, Outbound{aside.operand(), out.dest, out.tag}, in);
}

} // namespace gpurun::comm
