#include "option_hints.hpp"

#include <algorithm>
#include <vector>

namespace gpurun::launcher {

namespace {

// Of mpirun (Open MPI), mpiexec.hydra (MPICH, Intel MPI), srun and torchrun. Separated by spaces, each as it is written
// there.
struct OtherNames {
    std::string_view names;
    const char* hint;
};
constexpr OtherNames kOtherNames[] = {
    {"-np --np --n --ntasks --nproc --nproc-per-node --nproc_per_node",
     "mpirun's, srun's and torchrun's number of ranks is -n here: gpurun -n RANKS PROGRAM"},
    {"-c --cpus-per-task --cpus-per-rank --cpus-per-proc -cpus-per-proc",
     "each rank gets its share of the cores near its GPU; write --map GPU:CPUS,... to choose them"},
    {"--pernode -pernode", "write --ppn 1, with --hosts, for one rank on each node"},
    {"-N --npernode -npernode -ppn --perhost -perhost --ntasks-per-node",
     "on one node write -n RANKS, on each of several (--hosts) --ppn RANKS"},
    {"-x --export -env -genv --genv", "ranks have gpurun's environment; write --env NAME=VALUE to change it"},
    {"-genvall --genvall -envall --envall", "ranks have all of gpurun's environment anyway: leave it out"},
    {"-wdir --wdir -wd --wd -cwd --cwd -D --workdir", "write --chdir FOLDER"},
    {"-H -host --host -hosts --nodelist -w", "write --hosts HOST,..."},
    {"-hostfile -machinefile --machinefile -f --default-hostfile", "write --hostfile FILE"},
    {"--nodes --nnodes --node-rank --node_rank", "name the nodes: --hosts HOST,..."},
    {"-nolocal --nolocal", "name the hosts that ranks are to run on: --hosts HOST,..."},
    {"--launch-agent -launch-agent -launcher --launcher -launcher-exec -bootstrap --bootstrap -bootstrap-exec",
     "write --agent COMMAND for what starts gpurun on other hosts; it is ssh by default"},
    {"--app -app -configfile --configfile --multi-prog",
     "write the programs one after the other: gpurun -n RANKS ./a : -n RANKS ./b"},
    {"-tag-output -l --label -prepend-rank --prepend-rank", "write --tag-output"},
    {"-timestamp-output --timestamp-output", "write --timestamp"},
    {"--tee --redirects",
     "write --output-dir FOLDER for a file of each rank; lines are shown as well, or only those of --filter RANKS"},
    {"-output-filename --output-filename -o --output -e --error --log-dir --log_dir -outfile-pattern",
     "write --output-dir FOLDER"},
    {"--merge-stderr-to-stdout -merge-stderr-to-stdout",
     "there is no such option; write 2>&1 at the end of the command line"},
    {"--local-ranks-filter --local_ranks_filter", "write --filter RANKS"},
    {"-r",
     "for torchrun's --redirects write --output-dir FOLDER, for srun's --relative name the nodes: --hosts HOST,..."},
    {"--time", "write --timeout SECONDS"},
    {"-t", "for torchrun's --tee write --output-dir FOLDER, for srun's --time --timeout SECONDS"},
    {"-gdb --gdb -debug -debugger --debugger -tv --tv -xterm --xterm --attach --attach-to --wrap",
     "write --debug RANK[:COMMAND] for the rank that is to run under a debugger"},
    {"--rank-by -rank-by --ranking", "ranks are numbered in the order of their GPUs; see --map-by"},
    {"--rankfile -rankfile -rf --rf", "write --map GPU:CPUS,... with an entry for each rank"},
    {"--distribution", "ranks fill one host after the other; --map-by and --map choose the GPUs there"},
    {"--bynode -bynode", "ranks fill one host after the other; write --hosts HOST:RANKS,... for the ranks of each"},
    {"--byslot -byslot", "ranks fill one host after the other anyway: leave it out"},
    {"--role", "ranks have numbers and no roles: leave it out"},
    {"--gpus-per-task --gpus-per-node --gpus-per-rank --gres -G",
     "each rank has one GPU; write --gpus LIST to choose them"},
    {"--gpu-bind --gpu_bind", "each rank is bound to the cores near its GPU; write --gpus or --map to choose GPUs"},
    {"--ntasks-per-gpu", "write --ranks-per-gpu RANKS"},
    {"--cpu-bind --cpu_bind --bind -bind-to -bind-to-core --bind-to-core", "write --bind-to core, numa or none"},
    {"--mem-bind --mem_bind", "write --membind"},
    {"--mem --mem-per-cpu --mem-per-gpu", "gpurun does not limit memory: leave it out"},
    {"-J --job-name -p --partition -A --account --exclusive --qos --constraint -C",
     "gpurun uses the nodes of an allocation, and makes none: give it to salloc or sbatch"},
    {"--prefix -prefix", "other hosts run the gpurun at the same path as this one: leave it out"},
    {"--display --display-map -display-map --display-devel-map -display-devel-map "
     "--display-allocation",
     "write --report-bindings"},
    {"--input -i -stdin", "write --stdin RANK, all or none"},
    {"-u --unbuffered", "lines of ranks appear at once anyway: leave it out"},
    {"-q -quiet --quiet", "gpurun says nothing unless something is wrong: leave it out"},
    {"-v -verbose --verbose", "write --report-bindings to see where ranks run; GPURUN_LOG=info has more"},
    {"-V", "write --version"},
    {"--use-hwthread-cpus -use-hwthread-cpus", "a rank gets whole cores with all their hardware threads: leave it out"},
    {"--allow-run-as-root --standalone --kill-on-bad-exit -K --nooversubscribe -nooversubscribe",
     "gpurun does so anyway: leave it out"},
    {"--no-kill -k --enable-recovery", "write --keep-going"},
    {"--wait -W",
     "when a rank succeeds, the others go on; when one fails, they are ended, unless there is --keep-going"},
    {"--max-restarts --max_restarts", "gpurun restarts no rank; with --keep-going the others go on"},
    {"--mpi", "ranks need no plugin to start: leave it out"},
    {"-mca --mca -gmca --gmca --prtemca", "gpurun has no MCA parameters; gpurun_environment(7) has its settings"},
    {"--master-addr --master_addr --master-port --master_port --rdzv-endpoint --rdzv_endpoint --rdzv-backend "
     "--rdzv_backend --rdzv-id --rdzv_id",
     "gpurun tells ranks MASTER_ADDR and MASTER_PORT; set these variables to choose others"},
    {"-m --module", "gpurun starts any program: write python3 -m MODULE"},
    {"--no-python --no_python", "gpurun starts any program: leave it out"},
};

constexpr size_t kShortestBeginning = 3;

bool is_word_of(std::string_view words, std::string_view word) {
    for (size_t at = words.find(word); at != std::string_view::npos; at = words.find(word, at + 1)) {
        const size_t end = at + word.size();
        if ((at == 0 || words[at - 1] == ' ') && (end == words.size() || words[end] == ' '))
            return true;
    }
    return false;
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// As gpurun's own options are written: without the dashes before it, and with dashes inside.
std::string normal(std::string_view option) {
    option.remove_prefix(std::min(option.find_first_not_of('-'), option.size()));
    std::string name(option);
    std::replace(name.begin(), name.end(), '_', '-');
    std::transform(name.begin(), name.end(), name.begin(),
                   [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
    return name;
}

// How many letters have to be put in, left out, replaced, or exchanged with their neighbours.
size_t typing_errors(std::string_view a, std::string_view b) {
    std::vector<size_t> before_last(b.size() + 1);
    std::vector<size_t> last(b.size() + 1);
    std::vector<size_t> row(b.size() + 1);
    for (size_t j = 0; j <= b.size(); ++j)
        row[j] = j;
    for (size_t i = 1; i <= a.size(); ++i) {
        std::swap(before_last, last);
        std::swap(last, row);
        row[0] = i;
        for (size_t j = 1; j <= b.size(); ++j) {
            const bool same = a[i - 1] == b[j - 1];
            row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (same ? 0 : 1)});
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                row[j] = std::min(row[j], before_last[j - 2] + 1);
        }
    }
    return row[b.size()];
}

} // namespace

std::string hint_of_other_launchers(std::string_view option) {
    for (const OtherNames& other : kOtherNames)
        if (is_word_of(other.names, option))
            return other.hint;
    const bool number_attached = option.size() > 2 && option[1] != '-' && is_digit(option[2]); // -N2
    return number_attached ? hint_of_other_launchers(option.substr(0, 2)) : "";
}

std::string nearest_name(std::string_view option, std::span<const std::string> names) {
    const std::string wanted = normal(option);
    const size_t most_errors = wanted.size() < 3 ? 0 : wanted.size() < 6 ? 1 : 2;
    std::vector<std::string> beginnings;
    std::vector<std::string> nearest;
    size_t fewest = most_errors;
    for (const std::string& name : names) {
        if (wanted.size() >= kShortestBeginning && name.starts_with(wanted))
            beginnings.push_back(name);
        const size_t errors = typing_errors(wanted, name);
        if (errors < fewest)
            nearest.clear();
        if (errors <= fewest) {
            fewest = errors;
            nearest.push_back(name);
        }
    }
    if (nearest.size() == 1 && fewest == 0)
        return nearest[0];
    if (beginnings.size() == 1)
        return beginnings[0];
    return nearest.size() == 1 ? nearest[0] : "";
}

} // namespace gpurun::launcher
