// What a rank has before it has an engine: a device, its settings, and its record in a job segment. There is no gpurun,
// and no process of its own: a test has several of them, and plays what is missing.
#pragma once

#include "comm/engine.hpp"
#include "device/open.hpp"
#include "support/unit.hpp"
#include "transfer/channel/shm_channel.hpp"

#include <memory>
#include <optional>
#include <string>
#include <unistd.h>

namespace gpurun::test {

// Calls sleep at once: what they wait for must wake them. No mailboxes, which take a workspace of megabytes. Messages
// of a megabyte have more chunks than a relay has buffers, and longer ones go by a copy engine.
inline base::Settings rank_settings() {
    base::Settings settings;
    settings.spin_us = 0;
    settings.mail_bytes = 0;
    settings.kernel_copy_bytes = 2 << 20;
    settings.relay_chunk_bytes = 128 << 10;
    settings.emulated_memory_bytes = size_t{256} << 20;
    return settings;
}
// Enough device memory that a job of few ranks has mailboxes.
inline base::Settings settings_with_mailboxes() {
    base::Settings settings = rank_settings();
    settings.mail_bytes = base::Settings().mail_bytes;
    settings.emulated_memory_bytes = size_t{8} << 30;
    return settings;
}

// What a test puts in front of a device.
using Wrap = std::unique_ptr<device::Device> (*)(std::unique_ptr<device::Device>);

struct EmulatedRank {
    // `self` of the job's ranks, each with a device of its own.
    EmulatedRank(platform::JobSegment job_, uint32_t self_, const base::Settings& settings_ = rank_settings(),
                 Wrap wrap = nullptr)
        : job(std::move(job_)), self{self_}, settings(settings_) {
        device::Options options;
        options.selector = "emulated:" + std::to_string(self_) + "/" + std::to_string(job.size());
        options.emulated_memory_bytes = settings.emulated_memory_bytes;
        options.emulated_seed = settings.emulated_seed;
        options.emulated_delay_us = settings.emulated_delay_us;
        options.emulated_peer_access = settings.emulated_peer_access;
        device = must(device::open_device(options));
        if (wrap != nullptr)
            device = wrap(std::move(device));
        platform::RankRecord& record = job.rank(self_);
        record.pid = ::getpid();
        record.token = platform::own_token();
        probe.emplace(must(transfer::Probe::publish(*device, self_, facts)));
        workspace.emplace(
            must(transfer::Workspace::publish(*device, settings, transfer::WorkspaceRanks::of(job), facts)));
        transfer::ShmChannel::publish(record, facts);
    }

    // Its device can import what the other's exports. Both keep their own descriptor.
    void see(const EmulatedRank& other) const {
        must(device->add_peer(static_cast<int>(other.self.value), other.device->info().identity,
                              ::dup(other.device->shareable_fd())));
    }
    // For an engine; once.
    comm::RankParts parts() {
        return {.job = job,
                .self = self,
                .settings = settings,
                .device = *device,
                .probe = std::move(*probe),
                .workspace = std::move(*workspace),
                .trace = nullptr,
                .runs = runs,
                .process = process};
    }

    const platform::JobSegment job;
    const base::WorldRank self;
    const base::Settings settings;
    const device::RunLog runs;
    comm::ProcessEngines process; // with one engine: each of these stands for a process
    std::unique_ptr<device::Device> device;
    transfer::RankFacts facts;            // as its peers see them
    std::optional<transfer::Probe> probe; // until an engine has them
    std::optional<transfer::Workspace> workspace;
};

} // namespace gpurun::test
