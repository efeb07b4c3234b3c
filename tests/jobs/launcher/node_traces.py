"""gpurun --trace of a job on several nodes, whose clocks differ. Arguments: gpurun, trace_traffic (none without libfabric,
and under sanitizers)."""
import os
import re
import signal
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
if not sys.argv[2:]:
    print("skipped: there is no libfabric in this build, or a sanitizer, which does not see what it does")
    sys.exit(77)

import nodes  # noqa: E402
from launched import LONG_S, SOON_S, main  # noqa: E402
from namespaces import INSIDE, reenter  # noqa: E402
from nodes import NodesTest, setUpModule, tearDownModule  # noqa: E402,F401  unittest calls the last two
from trace_test import TRAFFIC, Trace, begin, end  # noqa: E402

AHEAD_S = 50_000  # of the clock of h2
IN_OWN_TIME = ["unshare", "--time", "--monotonic", str(AHEAD_S), "--fork", "--kill-child"]


def check_time_namespaces():
    if subprocess.run([*IN_OWN_TIME, "true"], capture_output=True, check=False).returncode != 0:
        print("skipped: no time namespaces here, in which a host could have a clock of its own")
        sys.exit(77)


class Traces(NodesTest):
    def setUp(self):
        super().setUp()
        self.path = f"{self.temporary_files}/trace.json"
        self.addCleanup(lambda: os.path.exists(self.path) and os.remove(self.path))
        self.agent = nodes.HOSTS_HERE.script("agent-of-other-time",
                                             f'exec nsenter -t "$(cat $here/$1)" --net --uts {" ".join(IN_OWN_TIME)} '
                                             'sh -c "$2"')

    def start(self, *arguments, **options):
        options.setdefault("hosts", "h1:1,h2:1")
        return super().start("--trace", self.path, *arguments, agent=self.agent, **options)

    def read(self):
        """The trace, of which what always holds is checked."""
        trace = Trace(self.path)
        self.off_by_us = trace.other["node_clocks_off_by_ns"] / 1000
        self.assertLess(self.off_by_us, 10_000, "or nothing below says anything")
        self.assertIn("those of other nodes were converted", trace.other["clock"])
        for rank, process in trace.order.items():
            self.assertRegex(trace.processes[process], rf"^rank {rank} \(emulated device 0 on h{rank + 1}, pid \d+\)$")
        for each in trace.slices:
            self.assertTrue(0 <= each["ts"] < LONG_S * 1e6, each)
        return trace

    def traced(self, *words, status=0, **options):
        got, _, error = self.run_gpurun(*words, **options)
        self.assertEqual(got, status, error)
        self.said = error
        return self.read()

    def test_arrows_lead_from_node_to_node_forwards_in_time(self):
        trace = self.traced(TRAFFIC, "collectives")
        self.assertEqual(sorted(trace.order), [0, 1])
        starts, ends = trace.arrows("s"), trace.arrows("f")
        self.assertEqual(sorted(starts), sorted(ends))
        pairs = {(starts[each]["pid"], ends[each]["pid"]) for each in starts}
        self.assertEqual(pairs, {(trace.order[0], trace.order[1]), (trace.order[1], trace.order[0])})
        for each in starts:
            self.assertLessEqual(starts[each]["ts"], ends[each]["ts"] + 2 * self.off_by_us)

    def test_what_all_ranks_do_together_is_at_the_same_time(self):
        trace = self.traced(TRAFFIC, "collectives")
        for name in ("gpurun_init", "gpurun_finalize"):  # each ends when all have come
            (one,), (other,) = (trace.of(rank, name) for rank in range(2))
            self.assertLess(max(begin(one), begin(other)), min(end(one), end(other)) + 2000 * self.off_by_us)

    def test_what_devices_did_is_converted_with_their_hosts(self):
        trace = self.traced(TRAFFIC, "streams")
        for rank in range(2):
            rows = {row for row, name in trace.rows.items() if row[0] == trace.order[rank] and name.startswith("device,")}
            moved = [each for each in trace.slices if (each["pid"], each["tid"]) in rows]
            self.assertNotEqual(moved, [])
            first, last = trace.of(rank, "gpurun_init")[0], trace.of(rank, "gpurun_finalize")[0]
            for each in moved:
                self.assertTrue(begin(first) <= begin(each) and end(each) <= end(last), each)

    def test_what_a_killed_rank_did_is_there(self):
        trace = self.traced("--keep-going", TRAFFIC, "death", status=128 + signal.SIGKILL)
        self.assertEqual([each["args"]["tag"] for each in trace.of(0, "send to 1")], [60])
        self.assertTrue(trace.of(1, "receive from 0", tag=62)[0]["args"]["failed"])

    def test_what_a_job_does_when_it_is_interrupted_is_there(self):
        process = self.start(TRAFFIC, "interrupted")
        self.assertEqual(process.stdout.readline(), b"waits\n")
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=LONG_S)
        self.assertEqual(process.returncode, 128 + signal.SIGINT)
        (receive,) = self.read().of(0, "receive from 1", tag=70)
        self.assertTrue(receive["args"]["unfinished"])

    def test_what_a_job_did_until_its_time_was_over_is_there(self):
        trace = self.traced("--timeout=3", TRAFFIC, "interrupted", status=124)
        self.assertTrue(trace.of(0, "receive from 1", tag=70)[0]["args"]["unfinished"])

    def test_the_rest_is_there_when_a_host_is_lost(self):
        process = self.start(TRAFFIC, "interrupted")
        self.assertEqual(process.stdout.readline(), b"waits\n")
        there = [pid for pid in self.daemons() if self.network_of(pid) != self.network_of(process.pid)]
        os.kill(min(there), signal.SIGKILL)  # the other one is its guard
        _, error = process.communicate(timeout=SOON_S)
        self.assertEqual(process.returncode, 1)
        self.assertIn(f"--trace {self.path}: what ranks did on h2 is missing: the host was lost\n", error.decode())
        self.assertEqual(len(self.read().of(0, "receive from 1", tag=70)), 1)

    def test_ranks_without_gpurun_init_are_there(self):
        trace = self.traced("true", hosts="h1:1,h2:1")
        self.assertEqual((trace.slices, sorted(trace.order), self.said), ([], [0, 1], ""))

    def test_events_beyond_the_room_are_counted_and_said(self):
        trace = self.traced(TRAFFIC, "threads", extra_env={"GPURUN_TRACE_EVENTS": "100"})
        self.assertGreater(trace.lost, 200)
        self.check_own_line(self.said, f"{trace.lost} events are missing", "first 100", "GPURUN_TRACE_EVENTS")

    def test_a_file_that_cannot_be_made_is_refused_before_anything_starts(self):
        self.path = "/nowhere/a.json"
        status, out, error = self.run_gpurun("echo", "started")
        self.assertEqual((status, out), (2, b""))
        self.check_own_line(error, "--trace /nowhere/a.json", "No such file")

    def test_a_job_that_cannot_start_leaves_no_file(self):
        for words in (("/nowhere/program",), ("-n", "1", "true", ":", "-n", "1", "/nowhere/program")):
            status, _, error = self.run_gpurun(*words)
            self.assertEqual(status, 127)
            self.assertTrue(re.match("gpurun: on h[12]: .*/nowhere/program", error), error)
            self.assertFalse(os.path.exists(self.path))


if __name__ == "__main__":
    if INSIDE not in os.environ:
        reenter()
    check_time_namespaces()
    main()
