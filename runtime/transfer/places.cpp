#include "transfer/places.hpp"

#include "platform/clock.hpp"

#include <algorithm>
#include <utility>

namespace gpurun::transfer {

using base::Result;

Places::Stream* Places::find(uint64_t name) {
    const auto found = std::find_if(streams_.begin(), streams_.end(),
                                    [&](const Stream& each) { return each.name == name && each.newest_number != 0; });
    return found == streams_.end() ? nullptr : &*found;
}

Result<Place> Places::keep(device::Stream stream) {
    GPURUN_ASSIGN(const uint64_t name, ground_.name(stream));
    GPURUN_ASSIGN(const device::Event event, ground_.mark(stream));
    Stream* known = find(name);
    if (known == nullptr) {
        known = &streams_[next_stream_++ % streams_.size()];
        *known = Stream{};
        known->name = name;
    }
    known->newest = event;
    known->newest_number = ++places_;
    return Place{event, name, places_};
}

// Its event will be recorded elsewhere.
void Places::forget(const Place& place) {
    Stream* const known = find(place.stream);
    if (known != nullptr && known->newest_number == place.number)
        known->newest.reset();
}

void Places::give_back(std::optional<Place>& place) {
    if (place)
        ground_.give_back(release(place));
}

device::Event Places::release(std::optional<Place>& place) {
    forget(*place);
    return std::exchange(place, std::nullopt)->event;
}

Result<bool> Places::is_over(const Place& place) { return ask(place, 0); }

Result<bool> Places::is_over_for_send(const Place& place) {
    GPURUN_ASSIGN(const bool over, ask(place, kLongestLookNs));
    if (!over)
        rows_at_once_ = kRowsAtOnce;
    return over;
}

Result<bool> Places::ask(const Place& place, int64_t longest_ns) {
    Stream* const known = find(place.stream);
    if (known != nullptr && known->over >= place.number)
        return true;
    if (known == nullptr || !known->newest)
        return ground_.query(place.event);
    if (known->busy == looks_)
        return false;
    GPURUN_ASSIGN(bool over, ground_.query(*known->newest));
    if (!over && longest_ns != 0 && waited_ != looks_) {
        waited_ = looks_;
        const int64_t end_ns = platform::now_ns() + longest_ns;
        while (!over && platform::now_ns() < end_ns) {
            GPURUN_ASSIGN(over, ground_.query(*known->newest));
        }
    }
    if (over)
        known->over = known->newest_number;
    else
        known->busy = looks_;
    return over;
}

void Places::end_row() {
    if (sends_in_row_ == 0)
        return;
    last_was_long_ = sends_in_row_ > kAtOnce;
    if (last_was_long_ && rows_at_once_ != 0)
        --rows_at_once_;
    sends_in_row_ = 0;
}

} // namespace gpurun::transfer
