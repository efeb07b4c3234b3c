#include "captured.hpp"

#include "call.hpp"
#include "machine.hpp"

namespace gpurun::bench {

namespace {

constexpr int kCapturedTag = 5;

// A message of no bytes each way; why it cannot be captured, or "".
std::string try_exchange(int other, gpurun_stream stream) {
    const gpurun_status status = gpurun_sendrecv(nullptr, 0, GPURUN_BYTE, other, kCapturedTag, nullptr, 0, GPURUN_BYTE,
                                                 other, kCapturedTag, GPURUN_COMM_WORLD, stream, nullptr);
    if (status == GPURUN_ERR_UNSUPPORTED)
        return gpurun_error_detail();
    CALL(status);
    return "";
}

} // namespace

Captured::Captured(gpurun_stream stream, const std::function<void()>& enqueue) {
    CALL(gpurun_capture_begin(stream));
    enqueue();
    CALL(gpurun_capture_end(stream, &graph_));
}

Captured::~Captured() { CALL(gpurun_graph_destroy(graph_)); }

void Captured::launch(gpurun_stream stream) const { CALL(gpurun_graph_launch(graph_, stream)); }

std::string why_not_captured(const Pair& pair, bool any_two) {
    std::string reason;
    const auto try_all = [&](gpurun_stream stream) {
        // In ascending order on all ranks: whom one waits for waits for nobody that comes later.
        for (int other = 0; other < pair.size(); ++other)
            if (any_two ? other != pair.rank() : other == pair.partner())
                if (const std::string why = try_exchange(other, stream); reason.empty())
                    reason = why;
    };
    gpurun_stream stream = nullptr;
    CALL(gpurun_stream_create(&stream));
    {
        const Captured tried(stream, [&] { try_all(stream); });
    }
    CALL(gpurun_stream_destroy(stream));
    return first_text(pair, reason);
}

} // namespace gpurun::bench
