"""What gpurun prints of several nodes before anything starts. Arguments: gpurun, wire_rank."""
import json
import os
import subprocess

from launched import GPURUN, SOON_S, main
from namespaces import INSIDE, reenter
import nodes
from nodes import NodesTest, setUpModule, tearDownModule  # noqa: F401  unittest calls the last two

TOPOLOGIES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../fixtures/topologies")


class Reports(NodesTest):
    def test_a_dry_run_prints_where_ranks_of_all_hosts_would_run(self):
        status, out, error = self.run_gpurun("--dry-run")
        self.assertEqual((status, error), (0, ""))
        lines = out.decode().splitlines()
        self.assertEqual([line for line in lines if line.startswith("on ")], ["on h1:", "on h2:"])
        self.assertEqual([line.split()[0] for line in lines if line.split()[0].isdigit()], ["0", "1", "2", "3"])

    def test_a_report_that_cannot_be_written_is_an_error(self):
        with open("/dev/full", "wb") as full:
            for word in ("--dry-run", "--topo"):
                self.assertEqual(self.run_gpurun(word, stdout=full),
                                 (1, None, "gpurun: standard output: No space left on device\n"))

    def test_a_host_without_a_rank_is_not_printed(self):
        status, out, _ = self.run_gpurun("--dry-run", "-n", "2")
        self.assertEqual((status, [line for line in out.decode().splitlines() if line.startswith("on ")]), (0, ["on h1:"]))

    def test_json_of_all_hosts_is_one_array(self):
        status, out, error = self.run_gpurun("--dry-run", "--json")
        self.assertEqual((status, error), (0, ""))
        ranks = json.loads(out)
        self.assertEqual([(each["host"], each["rank"]) for each in ranks], [("h1", 0), ("h1", 1), ("h2", 2), ("h2", 3)])
        self.assertEqual(ranks[3]["env"]["GPURUN_LOCAL_RANK"], "1")

    def test_bindings_are_told_and_the_job_runs(self):
        status, out, error = self.run_gpurun("--report-bindings", "hostname")
        self.assertEqual((status, sorted(out.split())), (0, [b"h1", b"h1", b"h2", b"h2"]))
        lines = error.splitlines()
        self.assertTrue(all(line.startswith("gpurun: ") for line in lines), error)
        self.assertEqual([line for line in lines if "gpurun: on " in line], ["gpurun: on h1:", "gpurun: on h2:"])

    def test_the_machines_of_all_hosts_are_printed(self):
        status, out, error = self.run_gpurun("--topo")
        self.assertEqual((status, error), (0, ""))
        self.assertEqual([line for line in out.decode().splitlines() if line.startswith("on ")], ["on h1:", "on h2:"])
        status, out, _ = self.run_gpurun("--topo", "--json")
        self.assertEqual((status, [each["host"] for each in json.loads(out)]), (0, ["h1", "h2"]))

    def test_hosts_of_a_recorded_machine_need_not_be_there(self):
        machine = ("--topology", f"{TOPOLOGIES}/smt4-2gpu.xml")
        status, out, error = self.run_recorded(*machine, "-n", "3", hosts="far,away:4,unused")
        self.assertEqual((status, error), (0, ""))
        lines = out.splitlines()
        self.assertEqual([line for line in lines if line.startswith("on ")], ["on far:", "on away:"])
        self.assertEqual([line.split()[:2] for line in lines if line.split()[0].isdigit()],
                         [["0", "0"], ["1", "1"], ["2", "0"]])
        status, out, error = self.run_recorded(*machine, "--json", hosts="far,away:1")
        self.assertEqual((status, error), (0, ""))
        self.assertEqual([(each["host"], each["rank"]) for each in json.loads(out)], [("far", 0), ("far", 1), ("away", 2)])
        status, out, error = self.run_recorded(*machine, "--topo", "--json", hosts="far,away")
        self.assertEqual((status, [each["host"] for each in json.loads(out)]), (0, ["far", "away"]), error)

    def test_what_does_not_fit_hosts_of_a_recorded_machine_is_refused(self):
        status, out, error = self.run_recorded("--topology", f"{TOPOLOGIES}/smt4-2gpu.xml", "-n", "5", hosts="far,away")
        self.assertEqual((status, out), (2, ""))
        self.check_own_line(error, "5 ranks, but the hosts take 4")

    def run_recorded(self, *words, hosts):
        done = subprocess.run([*nodes.HOSTS_HERE.on("h1"), GPURUN, "--hosts", hosts, "--agent", "/nowhere", *words],
                              env=self.environment(), capture_output=True, text=True, check=False, timeout=SOON_S)
        return done.returncode, done.stdout, done.stderr

    def test_what_does_not_fit_ends_a_dry_run(self):
        status, out, error = self.run_gpurun("--dry-run", "-n", "9")
        self.assertEqual((status, out), (2, b""))
        self.check_own_line(error, "9 ranks, but the hosts take 4")


if __name__ == "__main__":
    if INSIDE not in os.environ:
        reenter()
    main()
