#include "node_link.hpp"

#include "base/format.hpp"
#include "platform/byte_stream.hpp"
#include "platform/job_segment.hpp"

#include <cstring>
#include <memory>
#include <system_error>

namespace gpurun::launcher {

static_assert(NodeLink::kLargest > platform::kMaxJobRanks * sizeof(platform::RankRecord)); // of all, in one

namespace {

struct FrameHeader {
    uint32_t kind = 0;
    uint32_t bytes = 0; // that follow
};
static_assert(sizeof(FrameHeader) == 8);

constexpr size_t kReadBytes = 64 * 1024;
// Read of one node before others get their turn.
constexpr int kReadsInARow = 4;

} // namespace

bool same_key(const platform::NodeKey& a, const platform::NodeKey& b) {
    unsigned differences = 0;
    for (size_t i = 0; i < a.size(); ++i)
        differences |= std::to_integer<unsigned>(a[i] ^ b[i]);
    return differences == 0;
}

NodeLink::NodeLink(platform::EventLoop& loop, platform::UniqueFd connected, Observer& observer, size_t most)
    : observer_(observer), fd_(std::move(connected)), most_(most), watch_(loop, fd_.get(), [this] { on_ready(); }) {
    watch_.wait_for(platform::Ready::kReadable);
}

void NodeLink::send(uint32_t kind, std::string_view message) {
    if (!open())
        return;
    const FrameHeader header{kind, static_cast<uint32_t>(message.size())};
    unsent_.append(reinterpret_cast<const char*>(&header), sizeof header);
    unsent_ += message;
    // Its end is noticed by who reads: the caller is in the middle of something.
    static_cast<void>(write());
}

// False: the link has broken, and reading will say so.
bool NodeLink::write() {
    const platform::Transfer written = platform::write_now(fd_.get(), unsent_);
    unsent_.erase(0, written.bytes);
    const bool whole = written.state != platform::StreamState::kClosed && unsent_.size() <= kMostUnsent;
    // Both: two ends that waited for room only would wait for each other.
    watch_.wait_for(unsent_.empty() ? platform::Ready::kReadable : platform::Ready::kBoth);
    return whole;
}

void NodeLink::on_ready() {
    const bool whole = unsent_.empty() || write();
    // First what the other end said last: it may be why the connection has broken.
    if (read() && !whole)
        end(unsent_.size() > kMostUnsent ? "it does not read what it is sent" : "the connection broke");
}

bool NodeLink::read() {
    for (int i = 0; i < kReadsInARow; ++i) {
        std::array<char, kReadBytes> chunk;
        const platform::Transfer got = platform::read_now(fd_.get(), chunk);
        if (got.state == platform::StreamState::kWouldWait)
            return true;
        if (got.state == platform::StreamState::kClosed) {
            end(got.error_number != 0 ? std::generic_category().message(got.error_number)
                : received_.empty()   ? ""
                                      : "the connection broke off in the middle of a message");
            return false;
        }
        received_.append(chunk.data(), got.bytes);
        if (!take_messages())
            return false;
    }
    return true;
}

bool NodeLink::take_messages() {
    size_t taken = 0;
    while (received_.size() - taken >= sizeof(FrameHeader)) {
        FrameHeader header;
        std::memcpy(&header, received_.data() + taken, sizeof header);
        if (header.bytes > most_) {
            end(base::format("it sent a message of {} bytes, and {} is the most", header.bytes, most_));
            return false;
        }
        if (received_.size() - taken - sizeof header < header.bytes)
            break;
        const std::string_view message = std::string_view(received_).substr(taken + sizeof header, header.bytes);
        if (!observer_.heard(header.kind, message)) {
            end(base::format("it sent message {} of {} bytes, which does not belong there", header.kind, header.bytes));
            return false;
        }
        taken += sizeof header + header.bytes;
    }
    received_.erase(0, taken);
    return true;
}

void NodeLink::end(const std::string& why) {
    if (!open())
        return;
    watch_.stop();
    fd_.reset();
    unsent_.clear();
    observer_.link_ended(why);
}

} // namespace gpurun::launcher
