// Memory of cuMemMap(), such as PyTorch's expandable segments, in other processes. It is any number of pieces side by
// side, each with a descriptor of its own that the driver gives. What is shared is a span: the pieces that a buffer
// lies in, which the importer maps side by side, too.
//
// A process gives the descriptors itself, when an importer asks it: kept, they would keep the memory. A span has no
// state here; its handle says where it lies, and its id of which pieces it is. So who has other pieces there by now,
// gives none.
#pragma once

#include "device/cuda/driver.hpp"
#include "device/handle_bytes.hpp"
#include "platform/descriptor_server.hpp"

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

namespace gpurun::device::cuda {

// The id of a span, piece by piece: of a single one it is that piece's.
class SpanId {
  public:
    void add(uint64_t piece) {
        pieces_ += 1;
        // Of several: one that no piece has, since the driver counts these from 1.
        mixed_ = (mixed_ ^ piece) * 0x9E3779B97F4A7C15;
        mixed_ ^= mixed_ >> 29;
        first_ = pieces_ == 1 ? piece : first_;
    }
    uint64_t value() const { return pieces_ == 1 ? first_ : mixed_ | uint64_t{1} << 63; }

  private:
    uint64_t pieces_ = 0;
    uint64_t first_ = 0;
    uint64_t mixed_ = 0;
};

class MappedPieces {
  public:
    MappedPieces(const Driver& driver, CUcontext context, CUdevice device)
        : driver_(driver), context_(context), device_(device) {}

    // ---- exporter
    // REQUIRES that `buffer` is a span.
    base::Result<MemoryHandle> export_span(const Buffer& buffer);

    // ---- importer
    static bool is_span(const MemoryHandle& handle);
    // kBuffer if other pieces lie there by now.
    base::Result<void*> import_span(int peer, const MemoryHandle& handle);
    // What was imported of the peer before its pieces were unmapped there, as a later import has shown.
    std::vector<void*> take_stale(int peer);
    // Nothing if it was not imported here.
    std::optional<base::Result<void>> close(void* imported);

  private:
    struct Piece {
        uint64_t base = 0; // in the exporter
        uint64_t size = 0;
        uint64_t id = 0;

        bool replaces(const Piece& other) const {
            return id != other.id && base < other.base + other.size && other.base < base + size;
        }
    };
    struct Imported {
        int peer = 0;
        size_t bytes = 0;
        std::vector<Piece> pieces;
        bool stale = false;
        bool told = false;

        bool replaces(const Imported& other) const;
    };

    struct Range {
        CUdeviceptr at;
        size_t mapped; // of its beginning
        size_t bytes;
    };

    base::Result<platform::OfferedDescriptor> offer(CUdeviceptr address) const;
    base::Result<void> map_all(const DescriptorHandle& wanted, CUdeviceptr at, Imported& imported) const;
    base::Result<Piece> map_next(platform::DescriptorClient& exporter, CUdeviceptr there, CUdeviceptr here,
                                 size_t room) const;
    base::Result<void> unmap(CUdeviceptr at, size_t mapped, size_t bytes) const;

    const Driver& driver_;
    const CUcontext context_;
    const CUdevice device_;
    std::mutex mutex_; // guards the others
    std::unique_ptr<platform::DescriptorServer> server_;
    std::map<void*, Imported> imported_;
    // Of imports that have failed: unmapped with the next that is closed, since that may wait for the device.
    std::vector<Range> given_up_;
};

} // namespace gpurun::device::cuda
