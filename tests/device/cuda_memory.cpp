// What the CUDA device makes of the driver's answers about an address, for every kind of memory that a program can
// have.
#include "cuda_bench.hpp"

#include "platform/shared_memory.hpp"

#include <algorithm>

namespace gpurun::test {

using base::Status;
using device::Buffer;
using device::Placement;
using namespace device::cuda;

namespace {

constexpr uintptr_t kBase = 0x7000'0000'0000;
constexpr size_t kPiece = 2 << 20;
constexpr unsigned kRead = CU_MEM_ACCESS_FLAGS_PROT_READ;
constexpr unsigned kReadWrite = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;

void* at(uintptr_t offset) { return reinterpret_cast<void*>(kBase + offset); }

// Memory at kBase + offset.
FakeMemory& have(uintptr_t offset, const FakeMemory& memory) {
    FakeMemory& placed = fake().memory[kBase + offset] = memory;
    placed.id = 500 + offset;
    return placed;
}

// A piece of a reserved range of four.
FakeMemory& map_piece(size_t number, int ordinal, const std::map<int, unsigned>& granted) {
    FakeMemory piece{.size = kPiece, .ordinal = ordinal, .exportable = false};
    piece.range_start = kBase;
    piece.range_size = 4 * kPiece;
    piece.granted = granted;
    return have(number * kPiece, piece);
}

Buffer described(Bench& bench, uintptr_t offset, size_t bytes) {
    return must(bench.device.describe(at(offset), bytes));
}

} // namespace

TEST_CASE("memory of another device is elsewhere, whether of cudaMalloc or of a pool, and its end is known") {
    Bench bench;
    for (const bool pool : {false, true}) {
        have(0, {.size = 64, .ordinal = 1, .exportable = !pool, .pool = pool}).device_reaches = false;
        const Buffer buffer = described(bench, 8, 56);
        CHECK(buffer.placement == Placement::kElsewhere);
        CHECK(!buffer.exportable);
        CHECK(buffer.base == at(0));
        CHECK_STATUS(bench.device.describe(at(8), 57), Status::kBuffer);
    }
}

TEST_CASE("memory of another device that the rank's device reaches is like its own, but not exported") {
    Bench bench;
    have(0, {.size = 64, .ordinal = 1});
    CHECK(described(bench, 0, 64).placement == Placement::kDevice);
    CHECK(!described(bench, 0, 64).exportable);
}

TEST_CASE("an address that was described before is asked for its id alone, until other memory lies there") {
    Bench bench;
    have(0, {.size = 64});
    const Buffer first = described(bench, 8, 8);
    const auto questions = [&](size_t bytes) {
        const unsigned before = fake().questions;
        const Buffer buffer = described(bench, 8, bytes);
        CHECK(buffer.placement == first.placement);
        CHECK(buffer.base == first.base);
        CHECK(buffer.exportable);
        return fake().questions - before;
    };
    CHECK(questions(8) == 1);
    CHECK(questions(56) == 1);
    CHECK_STATUS(bench.device.describe(at(8), 57), Status::kBuffer);

    have(0, {.size = 128}).id = 7;
    CHECK(questions(56) > 1);
    CHECK(described(bench, 8, 8).id == 7);
    CHECK(questions(120) == 1);
    fake().memory.clear();
    CHECK_STATUS(bench.device.describe(at(8), 8), Status::kBuffer);
}

TEST_CASE("what may change while its id stays, or is not the rank's alone, is asked for everything each time") {
    Bench bench;
    for (const FakeMemory& memory : {FakeMemory{.size = 64, .ordinal = 1}, FakeMemory{.size = 64, .managed = true},
                                     FakeMemory{.size = 64, .exportable = false, .pool = true},
                                     FakeMemory{.size = 64, .type = CU_MEMORYTYPE_HOST}}) {
        have(0, memory);
        described(bench, 0, 64);
        const unsigned before = fake().questions;
        described(bench, 0, 64);
        CHECK(fake().questions - before > 1);
    }
}

TEST_CASE("managed memory is managed, whichever device was current when it was made") {
    Bench bench;
    have(0, {.size = 64, .ordinal = 1, .managed = true, .exportable = false});
    CHECK(described(bench, 0, 64).placement == Placement::kManaged);
}

TEST_CASE("a buffer in several pieces of mapped memory is one buffer") {
    Bench bench;
    for (size_t i = 0; i < 3; ++i)
        map_piece(i, 0, {{0, kReadWrite}});
    const Buffer buffer = described(bench, 100, 3 * kPiece - 100);
    CHECK(buffer.placement == Placement::kDevice);
    CHECK(!buffer.exportable);
    CHECK(!buffer.read_only);
}

TEST_CASE("a buffer that reaches into what is not mapped is refused, also where the range goes on") {
    Bench bench;
    for (const size_t piece : {0, 1, 3})
        map_piece(piece, 0, {{0, kReadWrite}});
    CHECK_STATUS(bench.device.describe(at(0), 2 * kPiece), Status::kOk);
    for (const size_t bytes : {2 * kPiece + 1, 4 * kPiece, SIZE_MAX}) {
        const auto refused = bench.device.describe(at(0), bytes);
        CHECK_STATUS(refused, Status::kBuffer);
        CHECK(detail_of(refused).find(std::to_string(2 * kPiece) + " bytes") != std::string::npos);
    }
    CHECK_STATUS(bench.device.describe(at(3 * kPiece), kPiece + 1), Status::kBuffer);
}

namespace {

constexpr uintptr_t kHere = 0x6000'0000'0000; // where an importer reserves addresses
constexpr int kPeer = 1;

// Pieces that other processes can map.
FakeMemory& share_piece(size_t number, int ordinal = 0) {
    FakeMemory& piece = map_piece(number, ordinal, {{0, kReadWrite}});
    piece.handle_types = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    return piece;
}

// One process is both exporter and importer.
struct SharedPieces : Bench {
    SharedPieces() {
        for (size_t i = 0; i < 4; ++i)
            share_piece(i);
        fake().next_address = kHere;
        REQUIRE_OK(device.add_peer(kPeer, {}, -1));
    }
    device::MemoryHandle exported(const Buffer& buffer) { return must(device.export_memory(buffer)); }
};

} // namespace

TEST_CASE("what is exported of mapped memory are the pieces that the bytes lie in, by which they are known") {
    SharedPieces bench;
    const Buffer one = described(bench, 2 * kPiece + 100, 8);
    CHECK(one.exportable);
    CHECK(one.in_pieces);
    CHECK(one.base == at(2 * kPiece));
    CHECK(one.size == kPiece);
    CHECK(one.id == fake().memory.at(kBase + 2 * kPiece).id);
    const Buffer several = described(bench, kPiece + 100, 2 * kPiece);
    CHECK(several.base == at(kPiece));
    CHECK(several.size == 3 * kPiece);
    CHECK(several.id == described(bench, kPiece, 3 * kPiece).id);
    CHECK(several.id != described(bench, kPiece, 2 * kPiece).id);
    fake().memory.at(kBase + 2 * kPiece).id += 1; // other memory is mapped there
    CHECK(described(bench, kPiece, 3 * kPiece).id != several.id);
    CHECK(described(bench, 0, kPiece).id == fake().memory.at(kBase).id);
}

TEST_CASE("mapped memory of another device, without descriptors, or that may only be read is not exported") {
    SharedPieces bench;
    share_piece(1).handle_types = 0;
    share_piece(2, 1);
    share_piece(3).granted = {{0, kRead}};
    CHECK(described(bench, 0, kPiece).exportable);
    CHECK_FALSE(described(bench, 0, kPiece + 1).exportable);
    CHECK_FALSE(described(bench, 2 * kPiece, kPiece).exportable);
    CHECK_FALSE(described(bench, 3 * kPiece, kPiece).exportable);
}

TEST_CASE("pieces are mapped side by side, and nothing is kept but the mapping") {
    SharedPieces bench;
    const Buffer buffer = described(bench, kPiece + 100, 2 * kPiece);
    void* const imported = must(bench.device.import_memory(kPeer, bench.exported(buffer)));
    CHECK(imported == reinterpret_cast<void*>(kHere));
    FakeMapping& mapping = fake().mapping;
    CHECK(mapping.mapped == std::map<uintptr_t, uintptr_t>{{kHere, kBase + kPiece},
                                                           {kHere + kPiece, kBase + 2 * kPiece},
                                                           {kHere + 2 * kPiece, kBase + 3 * kPiece}});
    CHECK(mapping.accessible.count(kHere) == 1);
    CHECK(mapping.handles == 0);
    REQUIRE_OK(bench.device.close_memory(imported));
    CHECK(mapping.mapped.empty());
    CHECK(mapping.reserved.empty());
    CHECK_STATUS(bench.device.close_memory(imported), Status::kBuffer);
}

TEST_CASE("what was mapped before its pieces were replaced is told, once, and what shares pieces is not") {
    SharedPieces bench;
    const auto import = [&](size_t first, size_t pieces) {
        fake().next_address += 0x1'0000'0000;
        return must(
            bench.device.import_memory(kPeer, bench.exported(described(bench, first * kPiece, pieces * kPiece))));
    };
    import(0, 2);
    void* const back = import(1, 3);
    void* const end = import(3, 1);
    CHECK(bench.device.take_stale_imports(kPeer).empty());
    fake().memory.at(kBase + 3 * kPiece).id += 1;
    import(3, 1);
    CHECK(bench.device.take_stale_imports(kPeer + 1).empty());
    CHECK(bench.device.take_stale_imports(kPeer) == std::vector<void*>{back, end});
    CHECK(bench.device.take_stale_imports(kPeer).empty());
}

TEST_CASE(
    "pieces are not mapped once others lie there, or one is missing, and what was tried goes with the next mapping") {
    SharedPieces bench;
    const device::MemoryHandle handle = bench.exported(described(bench, 0, 3 * kPiece));
    const auto refused = [&](Status status) {
        fake().next_address += 0x1'0000'0000;
        CHECK_STATUS(bench.device.import_memory(kPeer, handle), status);
        CHECK(fake().mapping.accessible.empty());
        CHECK(fake().mapping.handles == 0);
    };
    fake().memory.at(kBase + kPiece).id += 1;
    refused(Status::kBuffer);
    fake().memory.at(kBase + kPiece).id -= 1;
    fake().memory.at(kBase + kPiece).size = 2 * kPiece; // one larger piece, over two
    refused(Status::kBuffer);
    fake().memory.erase(kBase + kPiece);
    refused(Status::kDevice);
    share_piece(1);
    fake().mapping.next_map = CUDA_ERROR_OUT_OF_MEMORY;
    refused(Status::kMemory);
    fake().next_address += 0x1'0000'0000;
    void* const imported = must(bench.device.import_memory(kPeer, handle));
    REQUIRE_OK(bench.device.close_memory(imported));
    CHECK(fake().mapping.mapped.empty());
    CHECK(fake().mapping.reserved.empty());
}

TEST_CASE("a buffer on two devices is refused, and told where the second begins") {
    Bench bench;
    map_piece(0, 0, {{0, kReadWrite}});
    map_piece(1, 1, {{0, kReadWrite}});
    const auto refused = bench.device.describe(at(0), 2 * kPiece);
    CHECK_STATUS(refused, Status::kBuffer);
    CHECK(detail_of(refused).find("device 1") != std::string::npos);
    CHECK(described(bench, 0, kPiece).placement == Placement::kDevice);
    CHECK(described(bench, kPiece, kPiece).placement == Placement::kDevice);
}

TEST_CASE("mapped memory is reached by the rank's device, or else by its own, or by nobody") {
    struct Case {
        int ordinal;
        std::map<int, unsigned> granted;
        Placement placement;
        bool read_only;
    };
    const Case cases[] = {
        {0, {{0, kReadWrite}}, Placement::kDevice, false},
        {0, {{0, kRead}}, Placement::kDevice, true},
        {1, {{0, kReadWrite}}, Placement::kDevice, false},
        {1, {{0, kRead}}, Placement::kDevice, true},
        {1, {{1, kReadWrite}}, Placement::kElsewhere, false},
        {1, {{1, kRead}}, Placement::kElsewhere, true},
        {1, {{0, kReadWrite}, {1, kReadWrite}}, Placement::kDevice, false},
    };
    for (const Case& each : cases) {
        Bench bench;
        map_piece(0, each.ordinal, each.granted);
        const Buffer buffer = described(bench, 0, kPiece);
        CHECK(buffer.placement == each.placement);
        CHECK(buffer.read_only == each.read_only);
    }
    for (const int ordinal : {0, 1}) {
        Bench bench;
        map_piece(0, ordinal, {{2, kReadWrite}});
        const auto refused = bench.device.describe(at(0), 1);
        CHECK_STATUS(refused, Status::kBuffer);
        CHECK(detail_of(refused).find("cuMemSetAccess") != std::string::npos);
    }
}

TEST_CASE("a buffer is read-only if one of its pieces is") {
    Bench bench;
    map_piece(0, 0, {{0, kReadWrite}});
    map_piece(1, 0, {{0, kRead}});
    CHECK(!described(bench, 0, kPiece).read_only);
    CHECK(described(bench, 0, kPiece + 1).read_only);
}

TEST_CASE("device memory that is of no allocator, such as a kernel's variable, is the device's or elsewhere") {
    Bench bench;
    FakeMemory& variable = have(0, {.size = 64, .exportable = false});
    CHECK(described(bench, 0, 64).placement == Placement::kDevice);
    variable.ordinal = 1;
    variable.device_reaches = false;
    CHECK(described(bench, 0, 64).placement == Placement::kElsewhere);
}

TEST_CASE("host memory is pinned as far as one registration reaches, and else pageable") {
    Bench bench;
    have(0, {.size = 4096, .type = CU_MEMORYTYPE_HOST, .exportable = false});
    have(4096, {.size = 4096, .type = CU_MEMORYTYPE_HOST, .exportable = false});
    CHECK(described(bench, 100, 3996).placement == Placement::kPinned);
    CHECK(described(bench, 100, 3997).placement == Placement::kPageable);  // into the next registration
    CHECK(described(bench, 4196, 4096).placement == Placement::kPageable); // into what is not registered
    CHECK(described(bench, 4196, 3996).placement == Placement::kPinned);
}

TEST_CASE("host memory of which the driver gives no range is pinned if both its ends are the same memory") {
    Bench bench;
    FakeMemory& memory = have(0, {.size = 4096, .type = CU_MEMORYTYPE_HOST, .exportable = false});
    memory.range_start = kBase + 0x100000; // none that contains it
    memory.range_size = 1;
    CHECK(described(bench, 100, 3996).placement == Placement::kPinned);
    CHECK(described(bench, 100, 3997).placement == Placement::kPageable);
}

TEST_CASE("host memory that kernels do not reach by its address is left to the CPU") {
    Bench bench;
    have(0, {.size = 4096, .type = CU_MEMORYTYPE_HOST, .exportable = false}).device_reaches = false;
    CHECK(described(bench, 0, 64).placement == Placement::kPageable);
}

TEST_CASE("a range that is only in part in a pinned allocation, or in one that is freed for later, is refused") {
    Bench bench;
    auto* const pinned = static_cast<std::byte*>(must(bench.device.allocate_pinned(100)));
    CHECK(fake().memory[reinterpret_cast<uintptr_t>(pinned)].size == 4096); // for CUDA, all of it is pinned
    const auto describe = [&](ptrdiff_t offset, size_t bytes) { return bench.device.describe(pinned + offset, bytes); };
    CHECK(must(describe(0, 100)).placement == Placement::kPinned);
    CHECK(must(describe(99, 1)).placement == Placement::kPinned);
    CHECK_STATUS(describe(0, 101), Status::kBuffer);
    CHECK_STATUS(describe(99, 2), Status::kBuffer);
    CHECK_STATUS(describe(-4096, 4097), Status::kBuffer);
    CHECK_STATUS(describe(-4096, 3 * 4096), Status::kBuffer);
    CHECK(must(describe(-4096, 4096)).placement == Placement::kPageable);
    REQUIRE_OK(bench.device.free_later(pinned));
    CHECK_STATUS(describe(0, 100), Status::kBuffer);
    CHECK_STATUS(describe(50, 1), Status::kBuffer);
    CHECK_STATUS(bench.device.free_later(pinned), Status::kBuffer);
    CHECK_STATUS(bench.device.free_pinned(pinned), Status::kBuffer);
    bench.device.give_back();
    CHECK(fake().memory.empty());
}

TEST_CASE("where registered memory has another address on the device, pinned memory is the driver's, and not shared") {
    Bench bench(false);
    fake().next_address = kBase;
    void* const pinned = must(bench.device.allocate_pinned(100));
    CHECK(pinned == at(0));
    const Buffer buffer = must(bench.device.describe(pinned, 100));
    CHECK(buffer.placement == Placement::kPinned);
    CHECK(buffer.size == 100);
    CHECK_FALSE(buffer.exportable);
    REQUIRE_OK(bench.device.free_later(pinned));
    bench.device.give_back();
    CHECK(fake().memory.empty());
}

TEST_CASE("more pinned memory than the system has is refused before any of it is touched") {
    Bench bench;
    CHECK_STATUS(bench.device.allocate_pinned(platform::available_memory() + (size_t{1} << 40)), Status::kMemory);
    CHECK(fake().memory.empty());
}

TEST_CASE("pinned memory is mapped from its descriptor, registered, and as long as it is not freed") {
    Bench bench;
    REQUIRE_OK(bench.device.add_peer(kPeer, {}, -1));
    auto* const pinned = static_cast<std::byte*>(must(bench.device.allocate_pinned(5000)));
    pinned[4999] = std::byte{7};
    const Buffer buffer = must(bench.device.describe(pinned + 77, 4000));
    CHECK(buffer.exportable);
    CHECK_FALSE(buffer.in_pieces);
    const device::MemoryHandle handle = must(bench.device.export_memory(buffer));
    auto* const imported = static_cast<std::byte*>(must(bench.device.import_memory(kPeer, handle)));
    CHECK(imported != pinned);
    CHECK(imported[4999] == std::byte{7});
    const Buffer there = must(bench.device.describe(imported, 5000));
    CHECK(there.placement == Placement::kPinned);
    CHECK_FALSE(there.exportable); // it is lent on as its owner's
    REQUIRE_OK(bench.device.close_memory(imported));
    CHECK(fake().memory.size() == 1);
    CHECK_STATUS(bench.device.close_memory(imported), Status::kBuffer);
    fake().next_allocation = CUDA_ERROR_OUT_OF_MEMORY;
    CHECK_STATUS(bench.device.import_memory(kPeer, handle), Status::kMemory);
    CHECK_STATUS(bench.device.allocate_pinned(100), Status::kMemory);
    fake().next_allocation = CUDA_SUCCESS;
    REQUIRE_OK(bench.device.free_pinned(pinned));
    CHECK(fake().memory.empty());
    CHECK_STATUS(bench.device.import_memory(kPeer, handle), Status::kBuffer);
}

namespace {

// The calls of one copy, without their streams.
std::vector<std::string> verbs() {
    std::vector<std::string> all;
    for (const std::string& call : fake().calls)
        all.push_back(call.substr(0, call.rfind(' ')));
    return all;
}

std::string stream_of(size_t call) { return fake().calls.at(call).substr(fake().calls.at(call).rfind(' ') + 1); }

std::string in(const char* name, CUcontext context) {
    char text[64];
    std::snprintf(text, sizeof text, "%s %p", name, static_cast<void*>(context));
    return text;
}

} // namespace

TEST_CASE("what touches memory elsewhere runs on its device, behind the stream and before what follows there") {
    Bench bench;
    have(0, {.size = 64, .ordinal = 1});
    int host = 0;
    const std::vector<std::string> around = {in("record", kContext), in("wait", kOther), in("record", kOther),
                                             in("wait", kContext)};
    for (const char* what : {"out", "in", "fill"}) {
        fake().calls.clear();
        fake().current = kOther;
        if (*what == 'f')
            REQUIRE_OK(bench.device.fill_elsewhere(at(0), 1, 8, kStream));
        else if (*what == 'o')
            REQUIRE_OK(bench.device.copy_elsewhere(&host, at(0), 4, kStream));
        else
            REQUIRE_OK(bench.device.copy_elsewhere(at(0), &host, 4, kStream));
        std::vector<std::string> expected = around;
        expected.insert(expected.begin() + 2, in(*what == 'f' ? "fill" : "copy", kOther));
        CHECK(verbs() == expected);
        CHECK(stream_of(0) == stream_of(4));
        CHECK(stream_of(1) == stream_of(2));
        CHECK(stream_of(2) == stream_of(3));
        CHECK(stream_of(1) != stream_of(0));
        CHECK(fake().current == kOther); // the caller's
    }
    CHECK((fake().context_flags & 0x80) != 0);
}

TEST_CASE("a stream's work elsewhere does not wait for another stream's, unless there are very many") {
    Bench bench;
    have(0, {.size = 64, .ordinal = 1});
    std::set<std::string> branches;
    for (uintptr_t i = 0; i < 64; ++i) {
        const auto stream = made_up<device::Stream>(0x10008 + 0x1000 * i);
        for (const int again : {0, 1}) {
            fake().calls.clear();
            REQUIRE_OK(bench.device.fill_elsewhere(at(0), 1, 8, stream));
            const bool fresh = branches.insert(stream_of(2)).second;
            CHECK(fresh == (again == 0 && i < 32));
        }
    }
    CHECK(branches.size() == 32);
    fake().busy_events.clear(); // all is done
    fake().calls.clear();
    REQUIRE_OK(bench.device.fill_elsewhere(at(0), 1, 8, made_up<device::Stream>(0x99990008)));
    CHECK(branches.count(stream_of(2)) == 1);
}

TEST_CASE("a stream of another device is refused with what to do instead") {
    Bench bench;
    const auto refused = bench.device.is_captured(made_up<device::Stream>(0x20008));
    CHECK_STATUS(refused, Status::kStream);
    CHECK(detail_of(refused).find("device 1") != std::string::npos);
    CHECK(detail_of(refused).find("cudaStreamWaitEvent") != std::string::npos);
}

} // namespace gpurun::test
