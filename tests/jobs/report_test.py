#!/usr/bin/env python3
"""report_test.py GPURUN REPORT_TRAFFIC: GPURUN_REPORT=paths says which path messages took, why, how many, how long.

And GPURUN_LOG=info, whether ranks take turns on a device.
"""
import os
import subprocess
import sys

os.environ["GPURUN_MAIL_BYTES"] = "256K"  # so that device memory of 1 MB is pulled

PEERS = ["--device=emulated:2"]
ONE_DEVICE = ["--device=emulated:1", "--oversubscribe"]
AS_WITH_MPS = [*ONE_DEVICE, "env", "GPURUN_MPS=1"]  # gpurun says 0 where there is no daemon, so this comes after it

# In every job: what report_traffic.c sends whose path does not depend on the devices.
ALWAYS = ["host (host memory): 2 messages, 200 bytes",
          "host (host memory, read from the sender): 1 messages, 1000000 bytes"]
# And what it sends in the order of a stream between pinned memory, and from device memory into it: with peer access, and
# without, or where GPURUN_PATH says so.
STAGED = ["staged (one buffer is host memory): 1 messages, 1000000 bytes"]
BY_CPU = ["host (host memory): 1 messages, 1000000 bytes",
          "staged (one buffer is host memory): 2 messages, 2000000 bytes"]
SMALL = "staged (small: does not wait for its match): 4 messages, 400 bytes"  # unless GPURUN_PATH says otherwise
MAILED = "mailbox (small: does not wait for its match): 4 messages, 400 bytes"
UNMAPPED = "bounce (the first message of a large allocation): 1 messages, 1000000 bytes"
BOUNCED = "bounce (in one piece: peers cannot map the memory): 6 messages, 6000000 bytes"
CHUNKS = ["bounce (memory cannot be exported): 5 messages, 5000000 bytes",
          "bounce (pinned memory): 1 messages, 1000000 bytes"]
BACK = "host (host memory): 1 messages, 0 bytes"  # the only message from rank 1 to rank 0
# options, settings, lines beyond ALWAYS and STAGED or BY_CPU
JOBS = [
    (ONE_DEVICE, {}, [SMALL, "direct (same device): 6 messages, 6000000 bytes", *CHUNKS]),
    (PEERS, {}, [MAILED, "direct (peer access): 5 messages, 5000000 bytes", UNMAPPED, BOUNCED]),
    (AS_WITH_MPS, {}, [MAILED, "direct (same device): 6 messages, 6000000 bytes", BOUNCED]),
    (PEERS, {"GPURUN_MAIL_BYTES": "0"}, [SMALL, "direct (peer access): 5 messages, 5000000 bytes", UNMAPPED, *CHUNKS]),
    (PEERS, {"GPURUN_FENCE": "event"}, [SMALL, "direct (peer access): 5 messages, 5000000 bytes", UNMAPPED, *CHUNKS]),
    (PEERS, {"GPURUN_EMULATED_PEER_ACCESS": "none"}, [SMALL, "staged (no peer access): 10 messages, 10000000 bytes"]),
    (PEERS, {"GPURUN_PATH": "bounce"}, ["bounce (GPURUN_PATH): 14 messages, 10000400 bytes",
                                        "bounce (pinned memory): 2 messages, 2000000 bytes"]),
    (PEERS, {"GPURUN_EMULATED_ORDERED": "other"},
     [MAILED, "direct (peer access): 5 messages, 5000000 bytes", UNMAPPED,
      "staged (memory of another device than the rank's): 5 messages, 5000000 bytes",
      "bounce (in one piece: peers cannot map the memory): 1 messages, 1000000 bytes"]),
    (PEERS, {"GPURUN_EMULATED_ORDERED": "managed"},
     [MAILED, "direct (peer access): 5 messages, 5000000 bytes", UNMAPPED, BOUNCED]),
    (PEERS, {"GPURUN_EMULATED_CAPABILITIES": "counters,graphs,ordered-memory,clock"},
     [SMALL, "direct (peer access): 5 messages, 5000000 bytes", UNMAPPED, *CHUNKS]),
    (PEERS, {"GPURUN_PATH": "staged"}, [SMALL, "staged (GPURUN_PATH): 10 messages, 10000000 bytes"]),
    (PEERS, {"GPURUN_PATH": "direct"},
     ["direct (GPURUN_PATH): 10 messages, 6000400 bytes", BOUNCED]),
]


# What each rank says of the capabilities that its device lacks.
WITHOUT = {
    "fenced-copies": "copy engines make all copies",
    "mails": "small messages are staged",
    "channels": "no message can be captured",
    "other-devices": "memory of another device is refused",
    "reduce": "the CPU reduces copies of device memory",
    "fused-reduce": "small messages are copied before they are reduced",
}


def lines_of_capabilities(settings):
    present = settings.get("GPURUN_EMULATED_CAPABILITIES", ",".join(WITHOUT)).split(",")
    return [f"gpurun: rank {rank}: its device lacks '{name}': {instead}"
            for rank in (0, 1) for name, instead in WITHOUT.items() if name not in present]


def run(command, settings):
    job = subprocess.run(command, env={**os.environ, **settings}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                         text=True, timeout=60, check=False)
    said = job.stdout.replace("; the system refuses to read the sender's", ", read from the sender")  # in some containers
    return job.returncode, sorted(said.splitlines())


def main():
    gpurun, program = sys.argv[1:]
    wrong = 0
    for options, settings, lines in JOBS:
        far = settings.get("GPURUN_PATH") == "staged" or settings.get("GPURUN_EMULATED_PEER_ACCESS") == "none"
        lines = ALWAYS + (BY_CPU if far else STAGED) + lines
        expected = sorted([f"gpurun: rank {ends}: {line}" for ends in ("0 to 1", "1 from 0") for line in lines]
                          + [f"gpurun: rank {ends}: {BACK}" for ends in ("1 to 0", "0 from 1")]
                          + lines_of_capabilities(settings))
        status, got = run([gpurun, "-n", "2", *options, program], {**settings, "GPURUN_REPORT": "paths"})
        if status != 0 or got != expected:
            wrong += 1
            print(f"{options} {settings}: exit status {status}", "expected:", *expected, "got:", *got, sep="\n  ")
    silent = run([gpurun, "-n", "2", *PEERS, program], {})
    if silent != (0, []):
        wrong += 1
        print("without GPURUN_REPORT:", *silent)
    for options, speakers in ((ONE_DEVICE, 2), (PEERS, 0)):
        status, lines = run([gpurun, "-n", "2", *options, program], {"GPURUN_LOG": "info"})
        if (status, sum("they take turns" in line for line in lines)) != (0, speakers):
            wrong += 1
            print(f"{options} GPURUN_LOG=info: {speakers} ranks take turns, not:", *lines, sep="\n  ")
    return 1 if wrong else 0


sys.exit(main())
