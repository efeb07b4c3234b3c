#include "stream_keeper.hpp"

#include <algorithm>
#include <iterator>
#include <mutex>
#include <utility>
#include <vector>

namespace gpurun::python {
namespace {

struct Waiting {
    gpurun_event event;
    std::unique_ptr<Kept> kept;
};

std::mutex mutex; // for Pythons without a GIL

/* Never destroyed: a program may end while its streams run. */
std::vector<Waiting>& waiting() {
    static auto* const list = new std::vector<Waiting>;
    return *list;
}

bool is_used(const Buffer& buffer, gpurun_stream stream) {
    return buffer.data() != nullptr && buffer.current() != stream;
}

bool is_used(const Kept& kept, gpurun_stream stream) {
    return is_used(kept.first, stream) || is_used(kept.second, stream) ||
           std::any_of(kept.lent.begin(), kept.lent.end(), [=](const Buffer& each) { return is_used(each, stream); });
}

bool passed(const Waiting& each) {
    int done = 0;
    return each.event != nullptr && gpurun_event_query(each.event, &done) == GPURUN_OK && done != 0;
}

} // namespace

void keep_until_passed(gpurun_stream stream, std::unique_ptr<Kept> kept) {
    let_go_of_passed();
    if (kept == nullptr || stream == GPURUN_HOST || !is_used(*kept, stream))
        return;
    Waiting made{nullptr, std::move(kept)};
    if (gpurun_event_create(&made.event) == GPURUN_OK) // without an event it is kept for ever
        (void)gpurun_event_record(made.event, stream);
    const std::scoped_lock lock(mutex);
    waiting().push_back(std::move(made));
}

void let_go_of_passed() {
    std::vector<Waiting> over;
    {
        const std::scoped_lock lock(mutex);
        std::vector<Waiting>& list = waiting();
        const auto first = std::stable_partition(list.begin(), list.end(), [](const Waiting& w) { return !passed(w); });
        std::move(first, list.end(), std::back_inserter(over));
        list.erase(first, list.end());
    }
    for (const Waiting& each : over)
        (void)gpurun_event_destroy(each.event);
}

} // namespace gpurun::python
