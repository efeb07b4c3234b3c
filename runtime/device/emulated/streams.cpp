#include "device/emulated/streams.hpp"

#include "base/format.hpp"
#include "device/emulated/graph_body.hpp"

#include <mutex>

namespace gpurun::device::emulated {

using base::Status;

base::Result<std::shared_ptr<StreamQueue>> Streams::start() {
    GPURUN_ASSIGN(const uint32_t slot, slots_.claim("streams"));
    control_.note_stream(slot);
    auto queue = std::make_shared<StreamQueue>(++names_, *control_.progress(slot), slot, slots_, host_functions_,
                                               Pace(seed_, longest_delay_us_, slot));
    GPURUN_TRY(queue->start());
    return queue;
}

base::Result<Stream> Streams::create() {
    GPURUN_ASSIGN(std::shared_ptr<StreamQueue> queue, start());
    const auto stream = new_handle<Stream>();
    const std::unique_lock lock(mutex_);
    streams_.emplace(stream, std::move(queue));
    return stream;
}

base::Result<void> Streams::destroy(Stream stream) {
    std::shared_ptr<StreamQueue> queue;
    {
        const std::unique_lock lock(mutex_);
        const auto found = streams_.find(stream);
        if (found == streams_.end())
            return base::error(Status::kStream, "{} is not a stream of this device, or was destroyed before",
                               stream.address());
        if (found->second->captured())
            return base::error(Status::kStream, "{} is being captured: end the capture first", stream.address());
        queue = std::move(found->second);
        streams_.erase(found);
    }
    return queue->wait();
}

base::Result<std::shared_ptr<StreamQueue>> Streams::find(Stream stream) {
    {
        const std::shared_lock lock(mutex_);
        if (stream.native != nullptr) {
            const auto found = streams_.find(stream);
            if (found == streams_.end())
                return base::error(Status::kStream, "{} is not a stream of this device, or was destroyed",
                                   stream.address());
            return found->second;
        }
        if (default_ != nullptr)
            return default_;
    }
    const std::unique_lock lock(mutex_);
    if (default_ == nullptr) {
        GPURUN_ASSIGN(default_, start());
    }
    return default_;
}

std::vector<std::shared_ptr<StreamQueue>> Streams::all() {
    std::vector<std::shared_ptr<StreamQueue>> all;
    const std::shared_lock lock(mutex_);
    if (default_ != nullptr)
        all.push_back(default_);
    for (const auto& [stream, queue] : streams_)
        all.push_back(queue);
    return all;
}

// Waits without the lock: what a stream waits for may need another stream to be created. Nothing in a captured stream
// runs.
base::Result<void> Streams::wait_all() {
    for (const auto& queue : all())
        if (!queue->captured())
            GPURUN_TRY(queue->wait());
    return {};
}

base::Result<void> Streams::give_streams(GraphBody& graph) {
    for (size_t branch = 1; branch < graph.branches(); ++branch) {
        GPURUN_ASSIGN(std::shared_ptr<StreamQueue> queue, start());
        {
            const std::unique_lock lock(mutex_);
            std::erase_if(of_graphs_, [](const auto& each) { return each.expired(); });
            of_graphs_.push_back(queue);
        }
        graph.give_stream(std::move(queue));
    }
    return {};
}

void Streams::release_dead() {
    std::vector<std::shared_ptr<StreamQueue>> queues = all();
    {
        const std::shared_lock lock(mutex_);
        for (const auto& each : of_graphs_)
            if (auto queue = each.lock())
                queues.push_back(std::move(queue));
    }
    for (const auto& queue : queues)
        queue->release_dead();
}

} // namespace gpurun::device::emulated
