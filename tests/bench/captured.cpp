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

std::string why_not_captured(const Pair& pair) {
    std::string reason;
    if (!pair.alone()) {
        gpurun_stream stream = nullptr;
        CALL(gpurun_stream_create(&stream));
        {
            const Captured tried(stream, [&] { reason = try_exchange(pair.partner(), stream); });
        }
        CALL(gpurun_stream_destroy(stream));
    }
    return first_text(pair, reason);
}

} // namespace gpurun::bench
