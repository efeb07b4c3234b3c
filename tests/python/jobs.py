"""Programs that gpurun runs as jobs, for the tests beside this file."""
import os
import subprocess
import sys
import textwrap

GPURUN = os.environ.get("GPURUN", "gpurun")


def started(ranks, program, *options, **keywords):
    """Starts a program as a job of `ranks` ranks on emulated devices."""
    return subprocess.Popen(
        [GPURUN, "-n", str(ranks), "--device=emulated", "--oversubscribe", *options, sys.executable, "-c",
         textwrap.dedent(program)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **keywords)


def ended(process, timeout=60):
    """Waits for it; what it has printed is in stdout and stderr."""
    try:
        out, err = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        process.kill()
        out, err = process.communicate()
        raise AssertionError(f"it does not end; it has said {out!r}, {err!r}") from None
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


def job(ranks, program, *options, timeout=60, **keywords):
    """Runs a program as a job."""
    return ended(started(ranks, program, *options, **keywords), timeout)
