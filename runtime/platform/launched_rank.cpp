#include "platform/launched_rank.hpp"

#include "base/format.hpp"
#include "platform/host_name.hpp"
#include "platform/needed_libraries.hpp"
#include "platform/pmi1.hpp"
#include "platform/pmix.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <initializer_list>
#include <link.h>
#include <memory>
#include <string_view>
#include <vector>

namespace gpurun::platform {

namespace {

using base::Result;
using base::Status;
using Lookup = std::function<const char*(const char*)>;

constexpr size_t kLongestReadablePart = 40; // of a job's name
constexpr std::string_view kJobsOfSlurm = "slurm.";

std::string text_of(const Lookup& lookup, const char* name) {
    const char* const text = lookup(name);
    return text == nullptr ? "" : text;
}

std::optional<uint32_t> number_of(const Lookup& lookup, const char* name) {
    const std::string text = text_of(lookup, name);
    uint32_t number = 0;
    const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (text.empty() || failed != std::errc() || end != text.data() + text.size())
        return std::nullopt;
    return number;
}

// FNV-1a: the ranks of a job need the same number, whichever library each of them has.
uint64_t hash_of(std::string_view text) {
    uint64_t hash = 0xcbf29ce484222325;
    for (const unsigned char each : text)
        hash = (hash ^ each) * 0x100000001b3;
    return hash;
}

// What is the same in all ranks of a job, and in no others: `id` for people, and all of it in a hash.
std::string job_name(const char* kind, const std::string& id, std::initializer_list<std::string> more) {
    std::string all = id;
    for (const std::string& each : more)
        all += '\n' + each;
    std::string readable = id.substr(0, kLongestReadablePart);
    for (char& each : readable)
        if (std::isalnum(static_cast<unsigned char>(each)) == 0 && each != '.' && each != '_')
            each = '_';
    return base::format("{}-{}-{:016x}", kind, readable, hash_of(all));
}

// Launchers number jobs as they like, and some again after a while; not so the addresses at which they answer.
std::string pmix_job_name(const Lookup& lookup) {
    return job_name("pmix", text_of(lookup, "PMIX_NAMESPACE"),
                    {text_of(lookup, "PMIX_SERVER_URI2"), text_of(lookup, "PMIX_SERVER_TMPDIR")});
}

std::string step_of_slurm(const Lookup& lookup) {
    return text_of(lookup, "SLURM_JOB_ID") + "." + text_of(lookup, "SLURM_STEP_ID");
}

// Whether this process has loaded an MPI library, initialized or not.
bool has_mpi_library() {
    const auto look = [](dl_phdr_info* object, size_t, void*) {
        const std::string_view path = object->dlpi_name;
        return is_mpi_library(path.substr(path.rfind('/') + 1)) ? 1 : 0;
    };
    return ::dl_iterate_phdr(look, nullptr) != 0;
}

// Whatever of them is there: the word of rank 0.
template <typename Client>
Result<MeetingOfRank> meet_by(Client& client, uint32_t rank, int timeout_s) {
    OpenMeeting open;
    if (rank == 0) {
        GPURUN_ASSIGN(open, open_meeting());
    }
    GPURUN_ASSIGN(std::string word, client.share(rank, rank == 0 ? as_word(open.meeting) : "", timeout_s));
    if (!parse_meeting(word))
        return base::error(Status::kLauncher,
                           "rank 0 does not say where the nodes of this job meet: all ranks need the same gpurun");
    return MeetingOfRank{std::move(word), std::move(open.listener)};
}

// Ranks of other nodes have another name: nodes may share the folder in which they meet.
std::string name_on_this_node(const std::string& job) {
    return job.substr(0, job.rfind('-')) + base::format("-{:016x}", hash_of(job + '\n' + host_name()));
}

// A step of srun; with no local size if it has several nodes. Nothing if these variables are of another one, which has
// started a launcher between.
std::optional<LaunchedRank> rank_of_slurm(const Lookup& lookup, const char* rank_variable) {
    const auto rank = number_of(lookup, rank_variable);
    const auto size = number_of(lookup, "SLURM_STEP_NUM_TASKS");
    const auto nodes = number_of(lookup, "SLURM_STEP_NUM_NODES");
    if (!rank || !size || !nodes || rank != number_of(lookup, "SLURM_PROCID") || *rank >= *size)
        return std::nullopt;
    return LaunchedRank{
        .job = job_name("slurm", step_of_slurm(lookup),
                        {text_of(lookup, "SLURM_LAUNCH_NODE_IPADDR"), text_of(lookup, "SLURM_STEP_LAUNCHER_PORT")}),
        .rank = *rank,
        .size = *size,
        .local_rank = *rank,
        .local_size = *nodes == 1 ? *size : 0,
    };
}

// Nothing likewise.
std::optional<LaunchedRank> rank_of_open_mpi(const Lookup& lookup) {
    const auto rank = number_of(lookup, "OMPI_COMM_WORLD_RANK");
    const auto size = number_of(lookup, "OMPI_COMM_WORLD_SIZE");
    const auto local_rank = number_of(lookup, "OMPI_COMM_WORLD_LOCAL_RANK");
    const auto local_size = number_of(lookup, "OMPI_COMM_WORLD_LOCAL_SIZE");
    if (!rank || !size || !local_rank || !local_size || rank != number_of(lookup, "PMIX_RANK") || *rank >= *size ||
        text_of(lookup, "OMPI_MCA_ess_base_jobid") != text_of(lookup, "PMIX_NAMESPACE"))
        return std::nullopt;
    return LaunchedRank{.job = pmix_job_name(lookup),
                        .rank = *rank,
                        .size = *size,
                        .local_rank = *local_rank,
                        .local_size = *local_size};
}

Result<std::optional<LaunchedRank>> rank_by_pmix(const Lookup& lookup) {
    const auto rank = number_of(lookup, "PMIX_RANK");
    if (!rank || lookup("PMIX_NAMESPACE") == nullptr)
        return std::optional<LaunchedRank>();
    auto self = text_of(lookup, "PMIX_NAMESPACE").starts_with(kJobsOfSlurm) ? rank_of_slurm(lookup, "PMIX_RANK")
                                                                            : rank_of_open_mpi(lookup);
    if (self && self->local_size == self->size)
        return self;
    // Unless ranks are to meet, it leaves at once: a death of a client would end the others.
    GPURUN_ASSIGN(PmixClient started, PmixClient::start());
    const auto client = std::make_shared<PmixClient>(std::move(started));
    auto job = client->job();
    if (!job && self) // what its ranks have shared is not reliable then, either
        return base::error(
            Status::kLauncher,
            "this is not the first program of rank {} of {}, which runs on several nodes: its launcher can "
            "bring one program's ranks together there. Start each program by itself, or with gpurun --hosts",
            self->rank, self->size);
    if (!job)
        return std::move(job).failure();
    if (!self)
        self = LaunchedRank{.job = pmix_job_name(lookup), .rank = *rank, .size = job->size};
    self->local_rank = job->local_rank;
    self->local_size = job->local_size;
    if (self->local_size == self->size)
        return self;
    if (has_mpi_library())
        client->stay();
    self->job = name_on_this_node(self->job);
    self->meet = [client, number = *rank](int timeout_s) { return meet_by(*client, number, timeout_s); };
    return self;
}

Result<std::optional<LaunchedRank>> rank_by_pmi1(const Lookup& lookup, uint32_t fd) {
    const auto rank = number_of(lookup, "PMI_RANK");
    const auto size = number_of(lookup, "PMI_SIZE");
    if (!rank || !size || *size < 2)
        return std::optional<LaunchedRank>();
    std::optional<LaunchedRank> self;
    if (text_of(lookup, "PMI_JOBID") == step_of_slurm(lookup)) // an MPI library may speak PMI-2 to it
        self = rank_of_slurm(lookup, "PMI_RANK");
    if (self && self->local_size == self->size)
        return self;
    if (self && has_mpi_library())
        return base::error(
            Status::kLauncher,
            "this is rank {} of {} that srun has started on several nodes, where their MPI library needs "
            "the connection by which gpurun would bring them together: use srun --mpi=pmix",
            *rank, *size);
    GPURUN_ASSIGN(Pmi1Client client, Pmi1Client::start(static_cast<int>(fd)));
    if (!self)
        self = LaunchedRank{.job = job_name("pmi", client.job(), {}),
                            .rank = *rank,
                            .size = *size,
                            .local_rank = *rank,
                            .local_size = *size};
    const std::vector<uint32_t> nodes = nodes_of_mapping(client.mapping(), *size);
    // An MPI library says that it leaves, and could not come after we have.
    const bool leaves = !has_mpi_library();
    if (*rank >= nodes.size() || std::count(nodes.begin(), nodes.end(), nodes[*rank]) >= *size) {
        self->local_size = *size;
        if (leaves)
            GPURUN_TRY(client.leave());
        return self;
    }
    const auto own = nodes.begin() + *rank;
    self->local_rank = static_cast<uint32_t>(std::count(nodes.begin(), own, *own));
    self->local_size = static_cast<uint32_t>(std::count(nodes.begin(), nodes.end(), *own));
    self->job = name_on_this_node(self->job);
    self->meet = [client, leaves, number = *rank](int timeout_s) mutable -> Result<MeetingOfRank> {
        GPURUN_ASSIGN(MeetingOfRank meeting, meet_by(client, number, timeout_s));
        if (leaves)
            GPURUN_TRY(client.leave());
        return meeting;
    };
    return self;
}

} // namespace

Result<std::optional<LaunchedRank>> launched_rank(const Lookup& lookup) {
    // Where there are both: a launcher closes the descriptors that it has from others, so one that is open is the
    // nearest's.
    const auto fd = number_of(lookup, "PMI_FD");
    const bool by_pmi1 = fd && (may_be_pmi1(static_cast<int>(*fd)) || lookup("PMIX_NAMESPACE") == nullptr);
    GPURUN_ASSIGN(std::optional<LaunchedRank> self, by_pmi1 ? rank_by_pmi1(lookup, *fd) : rank_by_pmix(lookup));
    if (!self || self->size < 2)
        return std::optional<LaunchedRank>();
    return self;
}

} // namespace gpurun::platform
