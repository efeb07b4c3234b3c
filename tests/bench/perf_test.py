"""gpurun-perf as people call it, on emulated devices: that it runs, what it writes, and what it refuses.

perf_test.py GPURUN GPURUN-PERF SPOIL CLASS: the tests of one class. Nothing here looks at how fast anything is.
"""
import json
import os
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree as ElementTree
from pathlib import Path

gpurun, perf, spoil = (sys.argv.pop(1) for _ in range(3))

TESTS = ["latency", "bandwidth", "bidirectional", "rate", "exchange", "collective", "overlap", "call", "first", "loan"]
FIGURES = {
    "latency": ["min_us", "median_us", "p99_us", "bytes_per_second"],
    "bandwidth": ["median_us", "bytes_per_second"],
    "bidirectional": ["median_us", "bytes_per_second"],
    "rate": ["median_us", "messages_per_second"],
    "exchange": ["median_us", "p99_us"],
    "collective": ["median_us", "p99_us", "calls_us", "bytes_per_second", "bus_bytes_per_second"],
    "overlap": ["transfer_us", "compute_us", "together_us"],
    "call": ["send_median_us", "recv_median_us", "both_median_us"],
    "first": ["min_us", "median_us", "p99_us", "bytes_per_second"],
    "loan": ["min_us", "median_us", "p99_us"],
}
COLLECTIVES = ["allreduce", "bcast", "allgather", "alltoall", "reduce_scatter", "reduce", "gather", "scatter",
               "barrier"]
VARIANTS = {"exchange": " (group)", "collective": " (allreduce)"}
WITHOUT_COPY = ("collective", "overlap", "call", "first", "loan")
QUICK = ["--sizes=8,5000,64K", "--iterations=10", "--warmup=1", "--window=4", "--validate"]


def run(*options, ranks=2, devices="emulated:2", environment=None, launcher=()):
    command = [gpurun, "-n", str(ranks), f"--device={devices}", "--oversubscribe", *launcher, perf, *options]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=100,
                          env=os.environ | (environment or {}))


class Case(unittest.TestCase):
    def measured(self, *options, **job):
        done = run(*options, **job)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done

    def document(self, *options, **job):
        return json.loads(self.measured(*options, "--json", **job).stdout)

    def refused(self, status, word, *options, **job):
        done = run(*options, **job)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        self.assertIn(word, done.stderr)
        # gpurun's summary repeats a failed rank's last line.
        said = [line for line in done.stderr.splitlines() if word in line and not line.startswith("gpurun: ")]
        self.assertEqual(len(said), 1, "one rank speaks for all")


class Measuring(Case):
    def check_rows(self, document, test, references):
        rows = [row for row in document["rows"] if row["test"] == test]
        orders = ["stream"] if test == "call" else ["stream", "host"]
        self.assertEqual([(row["order"], row["bytes"]) for row in rows],
                         [(order, size) for order in orders for size in (8, 5000, 65536)])
        for row in rows:
            self.assertEqual([reference["name"] for reference in row["against"]], references)
            for measured in [row, *row["against"]]:
                for figure in FIGURES[test]:
                    self.assertGreater(measured[figure], 0, (figure, row))
            for reference in row["against"]:  # none to a memcpy of 8 bytes, which takes no time
                self.assertGreater(reference["ratio"] or row["bytes"] < 65536, 0)
            if test == "latency":
                self.assertLessEqual(row["min_us"], row["median_us"])
                self.assertLessEqual(row["median_us"], row["p99_us"])
            if test == "overlap":
                self.assertTrue(0 <= row["hidden_fraction"] <= 1)

    def test_every_test_has_a_row_for_each_order_and_size_with_its_figures(self):
        document = self.document("all", *QUICK, "--against=copy")
        for test in TESTS:
            with self.subTest(test):
                self.check_rows(document, test, [] if test in WITHOUT_COPY else ["copy"])

    def test_an_exchange_has_each_form_and_says_which(self):
        for form in ("sendrecv", "requests", "startall", "group"):
            with self.subTest(form):
                document = self.document("exchange", f"--form={form}", "--order=stream", *QUICK)
                self.assertEqual({row["form"] for row in document["rows"]}, {form})
                for row in document["rows"]:
                    self.assertEqual(row["window"], 4)
                    self.assertTrue(0 < row["calls_us"] <= row["median_us"], row)

    def test_the_document_says_where_when_and_how(self):
        document = self.document("rate", "--sizes=8", "--iterations=2", environment={"GPURUN_PATH": "staged"})
        self.assertEqual(document["program"], "gpurun-perf")
        self.assertEqual(document["format"], 1)
        self.assertRegex(document["date"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$")
        self.assertEqual([rank["kind"] for rank in document["machine"]["ranks"]], ["emulated"] * 2)
        self.assertEqual(document["machine"]["settings"]["GPURUN_PATH"], "staged")
        self.assertFalse(document["machine"]["pair_shares_device"])
        self.assertEqual(document["options"]["tests"], ["rate"])
        self.assertEqual(document["options"]["window"], 64)

    def test_the_tables_name_every_test_and_order(self):
        said = self.measured("all", "--sizes=8", "--iterations=5", "--against=copy").stdout
        for test in TESTS:
            self.assertIn(f"# {test}{VARIANTS.get(test, '')}, order domain: stream\n", said)
        self.assertNotIn("# call, order domain: host", said)
        self.assertIn("# copy: memcpy by one processor", said)

    def test_small_rates_and_what_takes_no_time_print_no_zeros(self):
        said = self.measured("latency", "bandwidth", "rate", "--sizes=1,8,64K", "--iterations=20",
                             "--against=copy").stdout
        rows = [line for line in said.splitlines() if line and not line.startswith("#") and "ratio" not in line]
        self.assertEqual(len(rows), 18, said)
        for row in rows:
            self.assertNotRegex(row, r" 0\.0+ [GMk]B/s")
            self.assertRegex(row, r" (\d+\.\d\d|-)$")

    def test_without_validation_the_last_messages_are_checked(self):
        self.measured("all", "--sizes=8,64K", "--iterations=5", "--window=3")


class Memory(Case):
    def test_every_kind_of_memory_on_either_side(self):
        kinds = ["device", "device-async", "pinned", "host"]
        for memory in [*kinds, "device:host", "pinned:device-async"]:
            with self.subTest(memory):
                document = self.document("all", *QUICK, "--against=copy", f"--memory={memory}")
                even, _, odd = memory.partition(":")
                self.assertEqual(document["options"]["memory"], [even, odd or even])

    def test_messages_that_are_longer_than_a_piece_of_the_check(self):
        self.measured("latency", "bidirectional", "--sizes=9000001", "--iterations=2", "--window=2", "--validate")


class Graphs(Case):
    MEASURED = ["latency", "bandwidth", "bidirectional", "rate", "exchange", "collective"]

    def test_runs_of_graphs_are_measured_and_checked_in_every_kind_of_memory_they_can_use(self):
        for memory in ("device", "device-async:pinned"):
            with self.subTest(memory):
                document = self.document("all", *QUICK, "--order=graph", "--against=copy", f"--memory={memory}")
                self.assertEqual([(row["test"], row["order"], row["bytes"]) for row in document["rows"]],
                                 [(test, "graph", size) for test in self.MEASURED for size in (8, 5000, 65536)])
                for row in document["rows"]:
                    for figure in FIGURES[row["test"]]:
                        self.assertGreater(row[figure], 0, (figure, row))
                    for reference in row["against"]:
                        self.assertGreater(reference["ratio"] or row["bytes"] < 65536, 0)
                    self.assertEqual(row["runs"], 1, "what is validated is looked at after every run")

    def test_a_sample_of_latency_is_some_runs_of_a_captured_batch(self):
        rows = self.document("latency", "--order=graph", "--sizes=8,512K,1M", "--iterations=300")["rows"]
        self.assertEqual([(row["batch"], row["runs"]) for row in rows], [(20, 3), (6, 9), (20, 3)])

    def test_pairs_measure_graphs_at_once_and_a_rank_without_partner_waits(self):
        said = self.measured("all", *QUICK, "--order=graph", ranks=5, devices="emulated:5").stdout
        self.assertIn("# 2 pairs at once", said)
        self.assertIn("# rate, order domain: graph\n", said)

    def test_what_cannot_be_captured_is_said_once_with_what_to_do(self):
        self.refused(2, "--order=graph cannot be measured here, --order=stream can: messages of graphs need counters",
                     "--order=graph", environment={"GPURUN_FENCE": "event"})
        self.refused(2, "there is no MPS (start with gpurun --mps=on, or", "--order=graph", devices="emulated:1")
        self.refused(2, "cannot use pageable host memory", "--order=graph", "--memory=device:host")
        for test in ("overlap", "call", "first", "loan"):
            self.refused(2, f"{test} is not measured in graphs: latency, bandwidth", test, "--order=graph")

    def test_the_drawing_names_the_order(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "perf.svg"
            self.measured("bandwidth", "--sizes=8,4K", "--iterations=2", "--order=graph", f"--plot={path}")
            self.assertIn(">gpurun, graph order<", path.read_text(encoding="utf-8"))


class Collectives(Case):
    """By all ranks, in every order; each is checked."""
    LIST = "--collective=" + ",".join(COLLECTIVES)

    def check_rows(self, document, order, ranks):
        blocks = [8 if ranks == 2 else 12, 5000 // ranks // 16 * 16 * ranks]
        expected = [(name, size) for name in COLLECTIVES for size in
                    ([0] if name == "barrier" else [8, 5000] if name in ("allreduce", "bcast", "reduce") else blocks)]
        self.assertEqual([(row["collective"], row["bytes"]) for row in document["rows"]], expected)
        for row in document["rows"]:
            self.assertEqual((row["order"], row["ranks"], row["against"]), (order, ranks, []))
            for figure in FIGURES["collective"]:
                if row["bytes"] or not figure.endswith("per_second"):
                    self.assertGreater(row[figure], 0, (figure, row))
            self.assertLessEqual(row["calls_us"], row["median_us"])

    def test_all_ranks_make_every_collective_in_every_order_in_place_or_not(self):
        for ranks in (2, 3):
            for order in ("stream", "host", "graph"):
                for place in ([], ["--in-place"]):
                    with self.subTest(order, ranks=ranks, place=place):
                        document = self.document("collective", self.LIST, f"--order={order}", "--sizes=8,5000",
                                                 "--iterations=10", "--validate", *place, ranks=ranks,
                                                 devices=f"emulated:{ranks}")
                        self.check_rows(document, order, ranks)
                        self.assertEqual({row["collective"] for row in document["rows"] if row["in_place"]},
                                         set(COLLECTIVES[:-1]) if place else {"bcast"})

    def test_collectives_have_each_form_and_say_which(self):
        for form in ("blocking", "requests", "group"):
            with self.subTest(form):
                document = self.document("collective", self.LIST, f"--form={form}", "--sizes=8,5000",
                                         "--iterations=10", "--validate")
                self.assertEqual({row["form"] for row in document["rows"]}, {form})

    def test_calls_in_a_row_are_a_sample_and_the_last_is_checked(self):
        for place in ([], ["--in-place"]):
            rows = self.document("collective", self.LIST, "--order=stream", "--sizes=64,64K", "--iterations=100",
                                 "--warmup=1", *place)["rows"]
            self.assertEqual({(row["batch"], row["runs"]) for row in rows}, {(20, 1)})
            rows = self.document("collective", "--order=graph", "--sizes=64,512K,2M", "--iterations=100", "--warmup=1",
                                 *place)["rows"]
            self.assertEqual([(row["batch"], row["runs"]) for row in rows], [(20, 1), (3, 7), (20, 1)])

    def test_every_kind_of_memory(self):
        for memory in ("device-async", "pinned", "host", "device:host"):
            with self.subTest(memory):
                self.measured("collective", self.LIST, "--sizes=8,5000", "--iterations=5", "--validate",
                              f"--memory={memory}")

    def test_several_collectives_are_several_tables_and_panels(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "perf.svg"
            said = self.measured("collective", "--collective=bcast,gather", "--in-place", "--sizes=64,4K",
                                 "--iterations=2", f"--plot={path}", ranks=3, devices="emulated:3").stdout
            drawing = path.read_text(encoding="utf-8")
        for name in ("bcast", "gather"):
            self.assertIn(f"# collective ({name}, in place), order domain: host\n", said)
            self.assertIn(f">{name}: Collective by all ranks, median of the slowest<", drawing)
        self.assertNotIn("no partner", said)

    def test_what_two_ranks_cannot_capture_is_said_before_anything_is_measured(self):
        self.refused(2, "--order=graph cannot be measured here, --order=stream can: messages of graphs need counters",
                     "collective", "--order=graph", ranks=3, environment={"GPURUN_FENCE": "event"})


class Tuning(Case):
    """Which algorithms are best: that all were measured, and that the settings found are ones that jobs take."""
    ALGORITHMS = {"allreduce": ["direct", "doubling", "pieces"], "reduce": ["direct", "pieces"],
                  "bcast": ["direct", "tree", "pieces"]}

    def test_every_algorithm_is_measured_and_the_best_values_are_settings(self):
        quick = ["--sizes=8,64K", "--iterations=10", "--validate"]
        document = self.document("tune", *quick, ranks=3, devices="emulated:3")
        found = {(row["collective"], row["order"], row["bytes"]): [each["name"] for each in row["against"]]
                 for row in document["rows"]}
        self.assertEqual(found, {(name, order, size): sorted(algorithms, key=["direct", "doubling", "pieces", "tree"].index)
                                 for name, algorithms in self.ALGORITHMS.items()
                                 for order in ("stream", "host") for size in (8, 65536)})
        self.assertEqual(list(document["tuned"]), ["GPURUN_ALLREDUCE", "GPURUN_REDUCE", "GPURUN_BCAST"])
        self.measured("collective", "--collective=allreduce,reduce,bcast", *quick, ranks=3, devices="emulated:3",
                      environment=document["tuned"])

    def test_lines_for_a_shell_are_printed_last(self):
        said = self.measured("tune", "--collective=bcast", "--order=host", "--sizes=8,4K", "--iterations=5",
                             environment={"GPURUN_BCAST": "tree"}).stdout
        self.assertRegex(said, r"\nexport GPURUN_BCAST=[a-z0-9:,K]+\n$")

    def test_an_algorithm_is_a_reference_by_itself(self):
        document = self.document("collective", "--collective=allreduce,gather", "--against=pieces", "--order=host",
                                 "--sizes=8", "--iterations=5")
        self.assertEqual([[each["name"] for each in row["against"]] for row in document["rows"]], [["pieces"], []])
        self.assertEqual(list(document["tuned"]), ["GPURUN_ALLREDUCE"])


class Ranks(Case):
    def test_pairs_measure_at_once_and_a_rank_without_partner_waits(self):
        said = self.measured("all", *QUICK, "--against=copy", ranks=5).stdout
        self.assertIn("# 2 pairs at once", said)
        self.assertIn("# rank 4 has no partner and takes no part", said)
        self.assertIn("# collectives of 5 ranks: the slowest one counts", said)

    def test_ranks_that_share_a_device_say_so(self):
        document = self.document("latency", "--sizes=8", "--iterations=2", devices="emulated:1")
        self.assertTrue(document["machine"]["pair_shares_device"])

    def test_one_rank_is_told_to_be_two(self):
        self.refused(2, "start it with gpurun -n 2 gpurun-perf", ranks=1)
        alone = subprocess.run([perf], capture_output=True, text=True, check=False, timeout=60)
        self.assertEqual(alone.returncode, 2)
        self.assertIn("messages need two ranks", alone.stderr)


class Drawing(Case):
    def test_the_drawing_is_well_formed_and_has_a_line_for_each_contender_and_order(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "perf.svg"
            self.measured("all", "--sizes=8,4K,64K", "--iterations=5", "--against=copy", f"--plot={path}")
            text = path.read_text(encoding="utf-8")
        space = "{http://www.w3.org/2000/svg}"
        drawing = ElementTree.fromstring(text)
        self.assertEqual(drawing.tag, f"{space}svg")
        # five tests with gpurun and the copy in two orders, four with gpurun in two, call in one
        self.assertEqual(len(drawing.findall(f"{space}polyline")), 5 * 4 + 4 * 2 + 1)
        labels = [label.text for label in drawing.iter(f"{space}text")]
        for label in ("gpurun, stream order", "gpurun, host order", "copy, host order", "message size (bytes)", "32K",
                      "latency (us)", "bandwidth (bytes per second)", "messages per second", "hidden part (%)",
                      "host time (us)"):
            self.assertIn(label, labels)
        for elsewhere in ("href", "url(", "<script", "@import"):
            self.assertNotIn(elsewhere, text)
        _, _, width, height = map(float, drawing.get("viewBox").split())
        for place in drawing.iter(f"{space}circle"):
            self.assertTrue(0 < float(place.get("cx")) < width and 0 < float(place.get("cy")) < height)

    def test_a_drawing_that_cannot_be_written_is_said_before_anything_is_measured(self):
        done = run("latency", "--plot=/nowhere/perf.svg")
        self.assertEqual(done.returncode, 1)
        self.assertIn("cannot write /nowhere/perf.svg: No such file", done.stderr)
        self.assertNotIn("# latency", done.stdout)


class Networks(Case):
    def test_latency_and_rate_in_host_order_are_held_against_tcp_and_libfabric(self):
        for nodes in ({}, {"GPURUN_EMULATED_NODES": "2"}):
            with self.subTest(nodes):
                document = self.document("latency", "rate", "bidirectional", *QUICK[:3], "--window=4", "--memory=host",
                                         "--against=tcp,fabric", environment=nodes)
                left_out = {reference["name"]: reference["reason"] for reference in document["left_out"]}
                self.assertNotIn("tcp", left_out)
                self.assertIn("libfabric", left_out.get("fabric", "libfabric"))
                there = [name for name in ("tcp", "fabric") if name not in left_out]
                for row in document["rows"]:
                    has_one = row["order"] == "host" and row["test"] != "bidirectional"
                    self.assertEqual([reference["name"] for reference in row["against"]], there if has_one else [])
                    for reference in row["against"]:
                        self.assertGreater(reference["median_us"], 0, row)


class Refusing(Case):
    def test_mistakes_are_named_by_one_rank_with_what_to_write(self):
        for word, *options in [
                ("cannot read '8:4M'", "--sizes=8:4M"), ("cannot read '4M..8'", "--sizes=4M..8"),
                ("--sizes: cannot read '0'", "--sizes=0"), ("there is no 'speed'; there are latency", "speed"),
                ("there is no 'gpu'; there are device", "--memory=gpu"), ("there are stream, host, graph", "--order=both,host"),
                ("there are copy, nccl", "--against=mpi"),
                ("there is no 'scan'; there are allreduce", "collective", "--collective=scan"),
                ("--window", "--window=0"),
                ("--iterations", "--iterations=many"), ("does not end in .svg", "--plot=perf.png"),
                ("call measures calls on a stream", "call", "--order=host"), ("--frobnicate", "--frobnicate")]:
            with self.subTest(options):
                self.refused(2, word, *options)

    def test_nccl_is_left_out_where_it_cannot_be_with_the_reason(self):
        done = self.measured("latency", "--sizes=8", "--iterations=2", "--against=nccl,copy", "--json")
        self.assertIn("--against=nccl is left out: ", done.stderr)
        document = json.loads(done.stdout)
        self.assertEqual([each["name"] for each in document["left_out"]], ["nccl"])
        self.assertEqual([each["name"] for each in document["references"]], ["copy"])

    def test_a_reference_that_has_nothing_to_say_about_the_tests_is_left_out(self):
        document = self.document("collective", "--sizes=8", "--iterations=2", "--against=copy")
        self.assertEqual(document["left_out"],
                         [{"name": "copy", "reason": "it cannot be measured for these tests"}])
        self.assertEqual(document["references"], [])

    def test_help_and_the_version_are_said_once(self):
        for option, word in (("--help", "Usage:"), ("--version", "gpurun-perf ")):
            done = self.measured(option)
            self.assertEqual(done.stdout.count(word), 1, done.stdout)


class Validating(Case):
    """A byte that is wrong in one message of many ends the run, and is named."""

    def spoiled(self, copy, *options, length=1000):
        # Copies of that length are those of contents, written and read; the one of that number is spoiled in rank 1.
        sizes = [] if any(option.startswith("--sizes") for option in options) else ["--sizes=1000"]
        return run("--iterations=10", "--window=4", *sizes, *options,
                   environment={"LD_PRELOAD": spoil, "SPOIL_LENGTH": str(length), "SPOIL_COPY": str(copy)})

    def test_a_wrong_byte_of_any_message_is_found_and_named(self):
        for test in TESTS:
            with self.subTest(test):
                done = self.spoiled(13, test, "--validate")
                self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
                self.assertRegex(done.stderr, r"gpurun-perf: rank [01]: (message \d+ from rank [01]|sum \d+ of 2 "
                                              r"ranks), 1000 bytes: byte 500 is 0x[0-9a-f]{2}, expected 0x[0-9a-f]{2}")

    def test_a_wrong_byte_of_any_collective_is_found(self):
        for collective in COLLECTIVES[:-1]:
            for place in ([], ["--in-place"]):
                with self.subTest(collective, place=place):
                    # What rank 1 checks, or what it gives where only the root checks; 2016 bytes are blocks of 1008.
                    whole = collective in ("allreduce", "bcast", "reduce")
                    done = self.spoiled(3, "collective", f"--collective={collective}", "--validate", *place,
                                        f"--sizes={1000 if whole else 2016}", length=1000 if whole else 1008)
                    self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
                    self.assertRegex(done.stderr, r"rank [01]: (message \d+ from rank [01]|sum \d+ of 2 ranks), "
                                                  r"10\d\d bytes: byte 50\d is 0x[0-9a-f]{2}, expected 0x[0-9a-f]{2}")

    def test_a_wrong_byte_that_a_graph_moves_is_found(self):
        for test in ("latency", "bandwidth", "bidirectional", "rate", "collective"):
            with self.subTest(test):
                self.assertEqual(self.spoiled(13, test, "--order=graph", "--validate").returncode, 1)

    def test_without_validation_a_wrong_byte_that_came_last_is_found(self):
        for options in (["bandwidth"], ["collective"], ["collective", "--order=graph"]):
            self.assertEqual(self.spoiled(1, *options).returncode, 1)
        # In place, what comes first is written over.
        self.assertEqual(self.spoiled(2, "collective", "--in-place", "--order=stream").returncode, 1)

    def test_bytes_that_nobody_spoils_are_right(self):
        done = self.spoiled(10**6, "all", "--validate")
        self.assertEqual(done.returncode, 0, done.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
