// How the two ranks of device_limits meet, map each other's memory, and take turns through the cases.
#include "limits.hpp"

#include <algorithm>

namespace limits {

Driver::Driver() {
    MUST(find_entry_point("cuLaunchKernel", launch));
    MUST(find_entry_point("cuLaunchKernelEx", launch_ex));
    MUST(find_entry_point("cuStreamWriteValue64", write));
    MUST(find_entry_point("cuStreamWaitValue64", wait));
    MUST(find_entry_point("cuStreamBatchMemOp", batch));
    MUST(find_entry_point("cuStreamGetCtx", context_of));
    MUST(find_entry_point("cuStreamIsCapturing", is_capturing));
    MUST(find_entry_point("cuPointerGetAttributes", attributes));
    MUST(find_entry_point("cuCtxGetCurrent", current_context));
}

namespace {

// cudaDevAttrMpsEnabled, which older headers do not have.
bool has_mps(int device) {
    int enabled = 0;
    const cudaError_t asked = cudaDeviceGetAttribute(&enabled, static_cast<cudaDeviceAttr>(133), device);
    (void)cudaGetLastError();
    return asked == cudaSuccess && enabled != 0;
}

Driver driver_of(int device) {
    MUST(cudaSetDevice(device));
    MUST(cudaFree(nullptr)); // makes the context
    return Driver();
}

} // namespace

Pair::Pair(int rank, const Options& options, Shared& shared, unsigned char* rings)
    : rank_(rank), options_(options), shared_(shared), rings_(rings), driver_(driver_of(options.one ? 0 : rank)) {
    const int device = options.one ? 0 : rank;
    spins_ = !options.one || options.mps || has_mps(device);
    MUST(cudaHostRegister(&shared, kSharedBytes, cudaHostRegisterPortable | cudaHostRegisterMapped));
    void* there = nullptr;
    MUST(cudaHostGetDevicePointer(&there, &shared, 0));
    if (there != &shared)
        fail("cudaHostRegister", "pinned memory has another address on the GPU");
    cudaDeviceProp properties{};
    MUST(cudaGetDeviceProperties(&properties, device));
    char bus[32] = {};
    MUST(cudaDeviceGetPCIBusId(bus, sizeof(bus), device));
    printf("rank %d: %s, %s, on CPU %d%s\n", rank, properties.name, bus, sched_getcpu(),
           !options.one ? ""
           : spins_     ? ", with MPS"
                        : ", no MPS: kernels that wait for the other rank's are left out");
    meet(kStartSeconds);
}

void Pair::fail(const char* what, const char* why) const {
    printf("rank %d: %s: %s\n", rank_, what, why);
    fflush(stdout);
    shared_.end();
    _exit(1);
}

void Pair::must(CUresult result, const char* what) const {
    if (result != CUDA_SUCCESS)
        fail(what, ("CUDA error " + std::to_string(static_cast<int>(result))).c_str());
}

void Pair::meet(double limit_s) {
    shared_.met[rank_].value.store(++met_, std::memory_order_release); // what each wrote before is read after
    await(
        "meeting", [&] { return shared_.met[other()].value.load(std::memory_order_acquire) >= met_; }, limit_s);
}

void Pair::finish(cudaStream_t stream) const {
    cudaError_t state = cudaSuccess;
    await("the end of a stream", [&] {
        state = cudaStreamQuery(stream);
        return state != cudaErrorNotReady;
    });
    if (state != cudaSuccess)
        fail("a stream", cudaGetErrorName(state));
    if (shared_.over.value.load() != 0)
        fail("a stream", "a kernel has waited in vain");
}

double Pair::larger(double mine) {
    shared_.numbers[rank_] = mine;
    meet();
    const double larger = std::max(shared_.numbers[0], shared_.numbers[1]);
    meet();
    return larger;
}

bool Pair::agreed(bool yes) {
    if (leads())
        shared_.go_on.value.store(yes ? 1 : 0);
    meet();
    const bool decided = shared_.go_on.value.load() != 0;
    meet();
    return decided;
}

void Pair::write(cudaStream_t stream, std::atomic<uint64_t>* counter, uint64_t value) const {
    must(driver_.write(stream, reinterpret_cast<CUdeviceptr>(counter), value, CU_STREAM_WRITE_VALUE_DEFAULT),
         "cuStreamWriteValue64");
}

void Pair::await_in(cudaStream_t stream, std::atomic<uint64_t>* counter, uint64_t at_least) const {
    must(driver_.wait(stream, reinterpret_cast<CUdeviceptr>(counter), at_least, CU_STREAM_WAIT_VALUE_GEQ),
         "cuStreamWaitValue64");
}

Exported::Exported(Pair& pair, size_t bytes) : pair_(pair) {
    Shared& shared = pair.shared();
    const Stream stream;
    MUST(cudaMalloc(&own_, bytes));
    MUST(cudaMemsetAsync(own_, 0, bytes, stream));
    pair.finish(stream);
    MUST(cudaIpcGetMemHandle(&shared.handles[pair.rank()], own_));
    pair.meet(kStartSeconds);
    void* mapped = nullptr;
    MUST(cudaIpcOpenMemHandle(&mapped, shared.handles[pair.other()], cudaIpcMemLazyEnablePeerAccess));
    theirs_ = static_cast<unsigned char*>(mapped);
    pair.meet(kStartSeconds); // before another handle is written in its place
}

Exported::~Exported() {
    MUST(cudaIpcCloseMemHandle(theirs_));
    pair_.meet(kStartSeconds); // memory is freed once nobody has it mapped
    MUST(cudaFree(own_));
}

void Arena::begin() {
    ++turn_;
    sent_.resize(kLargestMessage);
    for (size_t i = 0; i < sent_.size(); i++)
        sent_[i] = static_cast<unsigned char>(turn_ + i * 7 + i / 256);
    const std::vector<unsigned char> none(kLargestMessage);
    const Stream stream;
    MUST(cudaMemcpyAsync(data(), pair_.leads() ? sent_.data() : none.data(), sent_.size(), cudaMemcpyDefault, stream));
    pair_.finish(stream);
    pair_.meet();
}

void Arena::check(size_t bytes) {
    std::vector<unsigned char> came(bytes);
    const Stream stream;
    MUST(cudaMemcpyAsync(came.data(), data(), bytes, cudaMemcpyDefault, stream));
    pair_.finish(stream);
    if (!std::equal(came.begin(), came.end(), sent_.begin()))
        pair_.fail("a message", "came changed, or not at all");
    pair_.meet();
}

Graph::Graph(cudaStream_t stream, const std::function<void()>& enqueue) {
    cudaGraph_t graph = nullptr;
    MUST(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal));
    enqueue();
    MUST(cudaStreamEndCapture(stream, &graph));
    MUST(cudaGraphInstantiate(&runs_, graph, 0));
    MUST(cudaGraphDestroy(graph));
    MUST(cudaGraphUpload(runs_, stream));
}

// ---- taking turns -----------------------------------------------------------------------------------------------

namespace {

double median(Samples samples) {
    std::nth_element(samples.begin(), samples.begin() + samples.size() / 2, samples.end());
    return samples[samples.size() / 2];
}

std::string digits(double number) {
    char text[32];
    snprintf(text, sizeof(text), number < 1e4 ? "%.4g" : "%.0f", number);
    return text;
}

constexpr const char* kLine = "%-57s %7s %7s %-15s %-3s %6s  %s\n";

std::string line_of(const Case& each, const std::vector<Samples>& rounds) {
    Samples all, medians;
    for (const Samples& round : rounds) {
        all.insert(all.end(), round.begin(), round.end());
        medians.push_back(median(round));
    }
    const auto [least, most] = std::minmax_element(medians.begin(), medians.end());
    const double middle = median(all);
    const std::string range = digits(*least) + " to " + digits(*most);
    const std::string rate = each.bytes > 0 ? digits(each.bytes / middle / 1e3) : "";
    char text[256];
    snprintf(text, sizeof(text), kLine, each.title.c_str(), digits(middle).c_str(),
             digits(*std::min_element(all.begin(), all.end())).c_str(), range.c_str(), each.unit, rate.c_str(),
             each.gpurun);
    return text;
}

} // namespace

bool Report::selects(const Case& each) const {
    return (pair_.spins() || !each.spins) && std::regex_search(each.title, only_);
}

bool Report::selects(const std::vector<Case>& cases) const {
    return in_time_ && std::any_of(cases.begin(), cases.end(), [&](const Case& each) { return selects(each); });
}

void Report::take_turns(const std::vector<Case>& cases) {
    std::vector<std::vector<Samples>> measured(cases.size());
    for (int round = 0; round < pair_.options().rounds && in_time_; round++)
        for (size_t i = 0; i < cases.size(); i++) {
            if (!selects(cases[i]))
                continue;
            in_time_ = pair_.agreed(now_seconds() < pair_.options().until);
            if (!in_time_)
                break;
            measured[i].push_back(cases[i].measure());
            if (pair_.leads())
                printf("round %d, %s: %.4g %s\n", round + 1, cases[i].title.c_str(), median(measured[i].back()),
                       cases[i].unit);
        }
    if (!pair_.leads())
        return;
    for (size_t i = 0; i < cases.size(); i++)
        if (!measured[i].empty())
            lines_.push_back(line_of(cases[i], measured[i]));
}

void Report::print() const {
    if (!pair_.leads())
        return;
    printf("\n");
    printf(kLine, "case", "median", "min", "of rounds", "", "GB/s", "what gpurun does");
    for (const std::string& each : lines_)
        printf("%s", each.c_str());
    if (!in_time_)
        printf("not all of it: out of time\n");
}

} // namespace limits
