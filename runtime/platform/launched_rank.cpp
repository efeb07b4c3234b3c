#include "platform/launched_rank.hpp"

#include "base/format.hpp"
#include "platform/needed_libraries.hpp"
#include "platform/pmi1.hpp"
#include "platform/pmix.hpp"

#include <cctype>
#include <charconv>
#include <initializer_list>
#include <link.h>
#include <string_view>

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

struct Job {
    LaunchedRank self;
    bool on_one_node = false;
};

// A step of srun. Nothing if these variables are of another one, which has started a launcher between.
std::optional<Job> job_of_slurm(const Lookup& lookup, const char* rank_variable) {
    const auto rank = number_of(lookup, rank_variable);
    const auto size = number_of(lookup, "SLURM_STEP_NUM_TASKS");
    const auto nodes = number_of(lookup, "SLURM_STEP_NUM_NODES");
    if (!rank || !size || !nodes || rank != number_of(lookup, "SLURM_PROCID") || *rank >= *size)
        return std::nullopt;
    const std::string name =
        job_name("slurm", step_of_slurm(lookup),
                 {text_of(lookup, "SLURM_LAUNCH_NODE_IPADDR"), text_of(lookup, "SLURM_STEP_LAUNCHER_PORT")});
    return Job{{name, *rank, *size}, *nodes == 1};
}

// Nothing likewise.
std::optional<Job> job_of_open_mpi(const Lookup& lookup) {
    const auto rank = number_of(lookup, "OMPI_COMM_WORLD_RANK");
    const auto size = number_of(lookup, "OMPI_COMM_WORLD_SIZE");
    const auto here = number_of(lookup, "OMPI_COMM_WORLD_LOCAL_SIZE");
    if (!rank || !size || !here || rank != number_of(lookup, "PMIX_RANK") || *rank >= *size ||
        text_of(lookup, "OMPI_MCA_ess_base_jobid") != text_of(lookup, "PMIX_NAMESPACE"))
        return std::nullopt;
    return Job{{pmix_job_name(lookup), *rank, *size}, *here == *size};
}

Result<std::optional<Job>> job_by_pmix(const Lookup& lookup) {
    const auto rank = number_of(lookup, "PMIX_RANK");
    if (!rank || lookup("PMIX_NAMESPACE") == nullptr)
        return std::optional<Job>();
    const bool is_of_slurm = text_of(lookup, "PMIX_NAMESPACE").starts_with(kJobsOfSlurm);
    if (auto known = is_of_slurm ? job_of_slurm(lookup, "PMIX_RANK") : job_of_open_mpi(lookup))
        return known;
    GPURUN_ASSIGN(const PmixJob answer, ask_pmix());
    return std::optional(Job{{pmix_job_name(lookup), *rank, answer.size}, answer.local_size == answer.size});
}

Result<std::optional<Job>> job_by_pmi1(const Lookup& lookup, uint32_t fd) {
    const auto rank = number_of(lookup, "PMI_RANK");
    const auto size = number_of(lookup, "PMI_SIZE");
    if (!rank || !size || *size < 2)
        return std::optional<Job>();
    if (text_of(lookup, "PMI_JOBID") == step_of_slurm(lookup)) // an MPI library may speak PMI-2 to it
        if (auto known = job_of_slurm(lookup, "PMI_RANK"))
            return known;
    // An MPI library says that it leaves, and could not come after we have.
    GPURUN_ASSIGN(const Pmi1Job answer, ask_pmi1(static_cast<int>(fd), !has_mpi_library()));
    return std::optional(Job{{job_name("pmi", answer.name, {}), *rank, *size}, is_one_node(answer.mapping)});
}

} // namespace

Result<std::optional<LaunchedRank>> launched_rank(const Lookup& lookup) {
    // Where there are both: a launcher closes the descriptors that it has from others, so one that is open is the
    // nearest's.
    const auto fd = number_of(lookup, "PMI_FD");
    const bool by_pmi1 = fd && (may_be_pmi1(static_cast<int>(*fd)) || lookup("PMIX_NAMESPACE") == nullptr);
    GPURUN_ASSIGN(const std::optional<Job> job, by_pmi1 ? job_by_pmi1(lookup, *fd) : job_by_pmix(lookup));
    if (!job || job->self.size < 2)
        return std::optional<LaunchedRank>();
    if (!job->on_one_node)
        return base::error(Status::kLauncher,
                           "this is rank {} of {} that another launcher has started on several nodes, where only ranks "
                           "of gpurun reach each other: use gpurun --hosts LIST, or, in an allocation of Slurm, gpurun "
                           "./app",
                           job->self.rank, job->self.size);
    return std::optional(job->self);
}

} // namespace gpurun::platform
