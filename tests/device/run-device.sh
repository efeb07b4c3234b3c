#!/usr/bin/env bash
# Everything that only a GPU can show, in one call: runs what is built, needs no compiler and no Meson.
#
#     run-device.sh BUILD [STEP...]
#
# Steps, in this order (default: all):
#   machine      what is here; libraries that the binaries miss
#   conformance  the device contract on CUDA
#   placement    where ranks run, and what --topo says, next to what the system says
#   suite        the other tests of Meson's suite `device`
#   programs     random programs, for longer, where messages take different ways
#   examples     each on 2 ranks and on 4, several a GPU
#   bench        gpurun-perf, with the raw copy next to it, and NCCL where there are two GPUs
#   mps          what CUDA does when a process dies, and the benchmark on one GPU, under a private MPS daemon
#   sanitizer    the examples under compute-sanitizer
#
# Each job has a time limit, all of them together BUDGET_S seconds (default 540). Logs go to OUT (default
# device-logs), a table comes last. Exits 1 if a job failed or had no time left. Libraries that this machine lacks
# may lie in BUILD/carry. EXCEPT is a regular expression of job names to leave out, ONLY of those to run.
set -u

build=$(readlink -f "${1:?usage: run-device.sh BUILD [STEP...]}")
shift
here=$(dirname "$(readlink -f "$0")")
out=${OUT:-device-logs}
budget_s=${BUDGET_S:-540}
launcher=$build/launcher/gpurun
bench=$build/tests/bench/gpurun-perf
examples=(ring ping_pong broadcast fence graph overlap heat)
steps=(machine conformance placement suite programs examples bench mps sanitizer)
(($#)) && steps=("$@")

mkdir -p "$out"
[[ -d $build/carry ]] && export LD_LIBRARY_PATH=$build/carry${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
gpus=$(nvidia-smi -L 2>/dev/null | grep -c '^GPU')

rows=()
failed=()
bad=0

record() { # RESULT SECONDS NAME
    rows+=("$(printf '%-8s %6s  %s' "$1" "$2" "$3")")
    printf '%s\n' "${rows[-1]}"
}

log_of() { # NAME
    printf '%s/%s.log' "$out" "$(tr -cs 'A-Za-z0-9\n' '-' <<<"$1")"
}

job() { # NAME SECONDS COMMAND...
    local name=$1 limit=$2 begin=$SECONDS log status
    shift 2
    [[ $name =~ ${ONLY:-} ]] || return
    if [[ -n ${EXCEPT:-} && $name =~ $EXCEPT ]]; then
        record skip 0 "$name: EXCEPT"
        return
    fi
    log=$(log_of "$name")
    if ((SECONDS + 5 > budget_s)); then
        record 'no time' 0 "$name"
        bad=1
        return
    fi
    ((SECONDS + limit > budget_s)) && limit=$((budget_s - SECONDS))
    printf '$ %s\n' "$*" >"$log"
    timeout -k 5 "$limit" "$@" >>"$log" 2>&1 </dev/null
    status=$?
    case $status in
    0) record pass $((SECONDS - begin)) "$name" ;;
    77) record skip $((SECONDS - begin)) "$name" ;;
    124 | 137)
        record TIMEOUT $((SECONDS - begin)) "$name"
        failed+=("$log")
        bad=1
        ;;
    *)
        record "FAIL $status" $((SECONDS - begin)) "$name"
        failed+=("$log")
        bad=1
        ;;
    esac
}

skip() { # NAME REASON
    record skip 0 "$1: $2"
}

# ---- steps ------------------------------------------------------------------------------------------------------

libraries_are_there() {
    local binary missing=0
    for binary in "$launcher" "$build"/tests/conformance/conformance "$bench" "$build"/examples/ring; do
        [[ -e $binary ]] || continue
        if ldd "$binary" | grep 'not found'; then
            printf '%s: put these into %s/carry\n' "$binary" "$build"
            missing=1
        fi
    done
    return $missing
}

step_machine() {
    job 'nvidia-smi' 30 nvidia-smi
    job 'nvidia-smi topology' 30 nvidia-smi topo -m
    export -f libraries_are_there
    export launcher build bench
    job 'libraries' 30 bash -c libraries_are_there
}

# Tests of the suite whose command names WHERE, or with "not" those that name neither.
listed() { # [not] WHERE...
    local wanted=0 name limit command
    [[ $1 == not ]] && wanted=1 && shift
    while IFS=$'\t' read -r name limit command; do
        local found=1 where
        for where in "$@"; do
            [[ $command == *"$where"* ]] && found=0
        done
        ((found == wanted)) || continue
        job "$name" "$((limit < 120 ? limit : 120))" bash -c "$command"
    done < <(python3 "$here/device_tests.py" "$build")
}

step_conformance() {
    ((gpus > 1)) && export GPURUN_TEST_OTHER_DEVICE=cuda:1
    listed tests/conformance/
}

step_placement() {
    job 'gpurun --topo' 30 "$launcher" --topo
    job 'gpurun --dry-run' 30 "$launcher" --dry-run
    job 'placement on GPUs' 240 \
        python3 "$here/placement.py" "$launcher" "$build/tests/device/which_gpu" "$build/examples/ring"
}

step_suite() { listed not tests/conformance/ examples/; }

programs() { # NAME FIRST-SEED SECONDS [VARIABLE=VALUE...] -- [OPTION...]
    local name=$1 first=$2 seconds=$3 settings=()
    shift 3
    while [[ $1 != -- ]]; do
        settings+=("$1")
        shift
    done
    shift
    job "random programs, $name" $((seconds + 30)) env "${settings[@]}" "$launcher" --device=cuda --oversubscribe \
        --hang-timeout=20 "$@" "$build/tests/stress/stress" "$first" 1000000 "$seconds"
}

step_programs() {
    programs '2 ranks' 1 20 -- -n 2
    programs '4 ranks' 5000 20 -- -n 4
    programs '8 ranks' 6000 20 -- -n 8
    programs '3 ranks, staged' 7000 15 GPURUN_PATH=staged -- -n 3
    programs '2 ranks, event fence' 9000 15 GPURUN_FENCE=event -- -n 2
}

example() { # RANKS NAME [WRAPPER...]
    local ranks=$1 name=$2
    shift 2
    # A tool that wraps a rank, such as compute-sanitizer, need not know MPS.
    "$launcher" -n "$ranks" --device=cuda --oversubscribe ${1:+--mps=off} "$@" "$build/examples/$name"
}
export -f example
export launcher build

step_examples() {
    local name ranks
    for ranks in 2 4; do
        for name in "${examples[@]}"; do
            [[ $name == ping_pong && $ranks != 2 ]] && continue
            job "example $name, $ranks ranks" 60 bash -c "example $ranks $name"
        done
    done
}

measure() { # NAME [VARIABLE=VALUE...] -- [OPTION...]; against=WHAT measure ... for other references than copy
    local name=$1 settings=()
    shift
    while [[ $1 != -- ]]; do
        settings+=("$1")
        shift
    done
    shift
    job "bench $name" 150 env "${settings[@]}" "$launcher" -n 2 --device=cuda --oversubscribe --mps="${mps:-off}" \
        "$bench" "--against=${against:-copy}" "$@"
}

step_bench() {
    measure device --
    ((gpus > 1)) && measure 'device, one GPU' CUDA_VISIBLE_DEVICES=0 --
    measure 'device, event fence' GPURUN_FENCE=event -- --sizes 8..16M
    measure 'device, staged' GPURUN_PATH=staged -- --sizes 8..256M
    measure 'device, bounce' GPURUN_PATH=bounce -- --sizes 8..256M
    measure async -- --memory device-async --sizes 8..64M
    measure host -- --memory host --sizes 8..16M
    measure pinned -- --memory pinned --sizes 8..16M
    measure 'every test, every byte' -- all --validate --sizes 8,64K,4M --iterations 50
    ((gpus > 1)) && against=nccl measure 'graphs, NCCL' -- --order graph --sizes 8..4M
    ((gpus > 1)) && against=copy,nccl measure 'every test, NCCL' -- all --sizes 8..64M
}

step_mps() {
    if [[ ! -x $(PATH=$PATH:/usr/bin:/usr/local/nvidia/bin command -v nvidia-cuda-mps-control) ]]; then
        skip mps 'no nvidia-cuda-mps-control'
        return
    fi
    local mps=on before
    before=$(pgrep nvidia-cuda-mps)
    job 'what CUDA does when a process dies, MPS' 60 \
        "$launcher" -n 1 --device=cuda --mps=on "$build/tests/device/facts"
    measure 'device, one GPU, MPS' CUDA_VISIBLE_DEVICES=0 --
    job 'MPS leaves nothing behind' 30 bash -c \
        "[[ '$before' == \$(pgrep nvidia-cuda-mps) ]] && ! ls -d '${TMPDIR:-/tmp}'/gpurun-mps-*"
}

step_sanitizer() {
    local tool name
    tool=$(command -v compute-sanitizer || ls /usr/local/cuda*/bin/compute-sanitizer 2>/dev/null | head -n 1)
    if [[ -z $tool ]]; then
        skip sanitizer 'no compute-sanitizer'
        return
    fi
    local ranks
    for ranks in 2 4; do
        for name in "${examples[@]}"; do
            [[ $name == ping_pong && $ranks != 2 ]] && continue
            job "memcheck $name, $ranks ranks" 120 \
                bash -c "example $ranks $name '$tool' --tool memcheck --error-exitcode 9"
        done
    done
}

# ---- run, and say what came out ---------------------------------------------------------------------------------

for step in "${steps[@]}"; do
    if ! declare -F "step_$step" >/dev/null; then
        printf 'run-device.sh: no step %s\n' "$step" >&2
        exit 2
    fi
done
for step in "${steps[@]}"; do
    "step_$step"
done

for log in "${failed[@]:0:8}"; do
    printf '\n==> %s\n' "$log"
    tail -n 15 "$log" | cut -c 1-200
done
for name in 'gpurun --topo' 'gpurun --dry-run' 'bench device' 'what CUDA does when a process dies' 'what CUDA does when a process dies, MPS'; do
    log=$(log_of "$name")
    [[ -e $log ]] && printf '\n==> %s\n' "$log" && cut -c 1-140 "$log"
done
printf '\n%s GPUs, %d s, logs in %s\n' "$gpus" "$SECONDS" "$out"
printf '%s\n' "${rows[@]}"
exit "$bad"
