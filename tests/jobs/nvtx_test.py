"""Each call is a range for a tool that reads NVTX: nvtx_test.py GPURUN TRACE_TRAFFIC [NVTX_TOOL]"""
import re
import subprocess
import sys

LONG_S = 60
SKIPPED = 77

LINE = re.compile(r"nvtx: (\d+) pushes, (\d+) pops, (\d+) payloads of (\d+) bytes, (\d+) categories: (.*)")


def run(gpurun, *arguments):
    done = subprocess.run([gpurun, *arguments], capture_output=True, text=True, timeout=LONG_S, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr


def check_rank(line, message_calls):
    pushes, pops, payloads, size, categories, ranges = LINE.match(line).groups()
    names = [word.split("/")[0] for word in ranges.split()]
    kinds = {word.split("/")[0]: word.split("/")[1] for word in ranges.split()}
    assert names[0] == "gpurun_init" and names[-1] == "gpurun_finalize", names
    assert [name for name in names if name in message_calls] == message_calls * 2, names  # of 8 B, then of 1 MiB
    assert int(pushes) == int(pops) == len(names), line
    assert (int(payloads), int(size)) == (6, 3 * (8 + (1 << 20))), line
    assert int(categories) == 6 and len({kinds[name] for name in message_calls}) == 1, line
    assert kinds["gpurun_malloc"] != kinds[message_calls[0]], line


def main():
    gpurun, traffic, *tool = sys.argv[1:]
    version, _ = run(gpurun, "--version")
    if "NVTX" not in version:
        print("skipped: gpurun was built without NVTX, which is a header of the CUDA Toolkit")
        return SKIPPED
    _, said = run(gpurun, "-n", "2", "--device=emulated", "--tag-output", "--env",
                  f"NVTX_INJECTION64_PATH={tool[0]}", traffic, "blocking")
    lines = {line[1]: line[4:] for line in said.splitlines() if "nvtx:" in line}
    assert sorted(lines) == ["0", "1"], said
    check_rank(lines["0"], ["gpurun_send", "gpurun_send", "gpurun_ssend"])
    check_rank(lines["1"], ["gpurun_recv"] * 3)
    return 0


sys.exit(main())
