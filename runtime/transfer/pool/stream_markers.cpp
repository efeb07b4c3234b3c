#include "transfer/pool/stream_markers.hpp"

#include "platform/clock.hpp"

#include <algorithm>
#include <utility>

namespace gpurun::transfer {

using base::Result;

StreamMarkers::Stream* StreamMarkers::find(uint64_t name) {
    const auto found = std::find_if(streams_.begin(), streams_.end(),
                                    [&](const Stream& each) { return each.name == name && each.newest_number != 0; });
    return found == streams_.end() ? nullptr : &*found;
}

Result<Marker> StreamMarkers::set(device::Stream stream) {
    if (const auto of_call = share(stream))
        return *of_call;
    GPURUN_ASSIGN(const uint64_t name, source_.name(stream));
    GPURUN_ASSIGN(const device::Event event, source_.record(stream));
    Stream* known = find(name);
    if (known == nullptr) {
        known = &streams_[next_stream_++ % streams_.size()];
        *known = Stream{};
        known->name = name;
    }
    known->newest = event;
    known->newest_number = ++numbers_;
    const Marker marker{event, name, numbers_, shares_since_.has_value()};
    if (marker.shared)
        shared_.push_back({marker, stream});
    return marker;
}

std::optional<Marker> StreamMarkers::share(device::Stream stream) {
    for (auto each = shared_.rbegin(); shares_since_ && each != shared_.rend(); ++each) {
        if (each->marker.number < *shares_since_)
            break;
        if (each->stream == stream) {
            ++each->users;
            return each->marker;
        }
    }
    return std::nullopt;
}

bool StreamMarkers::others_have(const Marker& marker) {
    const auto found = std::find_if(shared_.begin(), shared_.end(),
                                    [&](const Shared& each) { return each.marker.number == marker.number; });
    if (--found->users != 0)
        return true;
    shared_.erase(found);
    return false;
}

void StreamMarkers::give_back(std::optional<Marker>& marker) {
    if (!marker)
        return;
    if (marker->shared && others_have(*marker)) {
        marker.reset();
        return;
    }
    Stream* const known = find(marker->stream);
    if (known != nullptr && known->newest_number == marker->number)
        known->newest.reset(); // it will be recorded elsewhere
    source_.give_back(std::exchange(marker, std::nullopt)->event);
}

Result<bool> StreamMarkers::is_passed(const Marker& marker) { return ask(marker, 0); }

Result<bool> StreamMarkers::is_passed_for_send(const Marker& marker) {
    GPURUN_ASSIGN(const bool passed, ask(marker, kLongestLookNs));
    if (!passed)
        batches_at_once_ = kBatchesAtOnce;
    return passed;
}

Result<bool> StreamMarkers::ask(const Marker& marker, int64_t longest_ns) {
    Stream* const known = find(marker.stream);
    if (known != nullptr && known->passed >= marker.number)
        return true;
    if (known == nullptr || !known->newest)
        return source_.query(marker.event);
    if (known->busy == looks_)
        return false;
    GPURUN_ASSIGN(bool passed, source_.query(*known->newest));
    if (!passed && longest_ns != 0 && waited_ != looks_) {
        waited_ = looks_;
        const int64_t end_ns = platform::now_ns() + longest_ns;
        while (!passed && platform::now_ns() < end_ns) {
            GPURUN_ASSIGN(passed, source_.query(*known->newest));
        }
    }
    if (passed)
        known->passed = known->newest_number;
    else
        known->busy = looks_;
    return passed;
}

void StreamMarkers::end_batch() {
    if (sends_in_batch_ == 0)
        return;
    last_was_long_ = sends_in_batch_ > kAtOnce;
    if (last_was_long_ && batches_at_once_ != 0)
        --batches_at_once_;
    sends_in_batch_ = 0;
}

} // namespace gpurun::transfer
