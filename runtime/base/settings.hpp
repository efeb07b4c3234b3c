// Every environment variable that gpurun reads, in one table: name, default, what it does.
//
// gpurun_environment(7) documents each row (a test compares them). A value that cannot be read is an error that
// names the variable, the value and what is allowed; nothing is ever silently ignored.
#pragma once

#include "base/algorithms.hpp"
#include "base/limits.hpp"
#include "base/status.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>

namespace gpurun::base {

enum class ErrorMode { kReturn = 1, kWarn = 2, kAbort = 3 }; // the numbers of gpurun_errors
enum class FenceKind { kAuto, kCounter, kEvent };
enum class OrderedMemory { kOwn, kOther, kManaged };
enum class PathChoice { kAuto, kDirect, kBounce, kStaged };

// What a rank prints in gpurun_finalize().
struct Reports {
    bool paths = false; // of messages
    bool loans = false; // that are open, and mappings
    bool collectives = false;
};

struct Settings {
    // Set by gpurun for each rank.
    int rank = 0;
    int size = 1;
    int local_rank = 0;
    int local_size = 1;
    int control_fd = -1;           // -1: not started by gpurun, a job of one rank
    std::string device = "auto";   // auto, cuda:UUID, cuda:ORDINAL, emulated:ORDINAL/COUNT
    bool mps = false;              // processes that share a GPU run on it at the same time, not in turns
    std::string job;               // the job's name; empty: a job of one rank
    uint32_t hardware_queues = 32; // of the GPU that are this rank's
    // No settings of their own, of a process that gpurun did not start.
    uint32_t auto_device = 0;  // which one of its GPUs `auto` is, counted in circles
    std::string meeting;       // with ranks on several nodes: where these meet (platform/node_meeting.hpp)
    int meeting_listener = -1; // in rank 0: the socket that listens there, until it has joined

    // For users.
    ErrorMode errors = ErrorMode::kWarn;
    int log_level = 0;
    Reports report;
    bool check = false; // all ranks of a collective agree on it first; finalize tells what is left
    AlgorithmsAskedFor algorithms;
    FenceKind fence = FenceKind::kAuto;
    PathChoice path = PathChoice::kAuto;
    size_t eager_bytes = 32 * 1024;     // host messages up to this size travel inside the record ring
    size_t device_eager_bytes = 4096;   // device messages up to this size never wait for their match
    size_t mail_bytes = kMostMailBytes; // device messages up to this size go by mailbox, where there is one
    size_t kernel_copy_bytes =
        16u << 20; // device messages up to this size are copied by a kernel where it waits for them
    size_t relay_chunk_bytes = kMostRelayChunkBytes;
    bool single_copy = true;              // host messages are read from their sender where the system allows it
    bool progress_thread = true;          // a thread completes requests while the program computes
    std::string launcher;                 // the gpurun program, for ranks that it did not start; empty: searched for
    int join_timeout_s = 300;             // how long the ranks of such a job wait for the last one
    std::string fabric = "auto";          // libfabric's provider, by which ranks of other nodes are reached
    std::string fabric_interface;         // where it leaves this node; "": at node_address, if it can
    std::string node_address;             // by which other nodes reach this one
    std::string mps_control;              // the program that gpurun starts for MPS; empty: it is searched for
    size_t trace_bytes = size_t{1} << 30; // that the file of gpurun's --trace may have, about
    uint64_t trace_events = 1 << 20;      // that fit into a rank's part of gpurun's --trace
    std::optional<int64_t> spin_us;       // unset: by device and cores (comm/waiter.cpp)

    // The emulated device.
    size_t emulated_memory_bytes = size_t{16} << 30;
    std::string emulated_peer_access = "all"; // all, none, or pairs: 0-1,2-3
    uint64_t emulated_seed = 0;               // 0: no delays
    int64_t emulated_delay_us = 50;           // the longest delay, with a seed
    std::string emulated_lose;                // a device ordinal that is not there, to test a vanished GPU
    uint32_t emulated_nodes = 1;              // the job's ranks are treated as if they ran on so many
    OrderedMemory emulated_ordered = OrderedMemory::kOwn;
    std::string emulated_capabilities = "all"; // all, none, or a list of names (device/capabilities.hpp)
};

struct SettingInfo {
    const char* name;
    const char* fallback; // as documented; empty: unset
    const char* help;
    bool by_launcher;
    Result<void> (*read)(Settings& settings, const std::string& text);
};

std::span<const SettingInfo> settings_table();

// `lookup` returns the value of an environment variable, or null. An empty value counts as unset.
Result<Settings> read_settings(const std::function<const char*(const char*)>& lookup);

// What can be used of it, for what has to be said before read_settings(), or when it fails.
Settings usable_settings(const std::function<const char*(const char*)>& lookup);

} // namespace gpurun::base
