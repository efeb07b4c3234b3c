"""gpurun --trace: what is in the file, whatever becomes of the job.

Arguments: gpurun, trace_traffic.
"""
import collections
import json
import os
import signal
import subprocess
import sys
import xml.etree.ElementTree

os.environ["GPURUN_MAIL_BYTES"] = "256K"  # so that 512 KiB and more are pulled

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "launcher"))
from launched import EMULATED, LONG_S, LaunchedTest, main  # noqa: E402

TRAFFIC = os.path.abspath(sys.argv[2])
PLOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../bench/trace_plot.py")
NS = 1000  # in a microsecond


class Trace:
    """A file of --trace, its slices by track."""

    def __init__(self, path):
        with open(path, encoding="utf-8") as file:
            whole = json.load(file)
        self.other = whole["otherData"]
        self.lost = self.other["lost_events"]
        self.lost_runs = self.other["lost_runs"]
        self.left_out = whole["left_out_events"]
        self.events = whole["traceEvents"]
        self.processes = {event["pid"]: event["args"]["name"] for event in self.events
                          if event["name"] == "process_name"}
        self.order = {event["args"]["sort_index"]: event["pid"] for event in self.events
                      if event["name"] == "process_sort_index"}
        self.rows = {(event["pid"], event["tid"]): event["args"]["name"] for event in self.events
                     if event["name"] == "thread_name"}
        self.slices = [event for event in self.events if event["ph"] == "X"]

    def of(self, rank, *names, **arguments):
        """The slices of a rank whose name begins with one of these, in the order in which they began."""
        found = [each for each in self.slices if each["pid"] == self.order[rank] and each["name"].startswith(names) and
                 all(each.get("args", {}).get(key) == value for key, value in arguments.items())]
        return sorted(found, key=begin)

    def inside(self, outer):
        return [each for each in self.slices if each is not outer and each["pid"] == outer["pid"] and
                each["tid"] == outer["tid"] and begin(outer) <= begin(each) and end(each) <= end(outer)]

    def arrows(self, which, name="message"):
        found = [event for event in self.events if event["ph"] == which and event["name"] == name]
        by_id = {event["id"]: event for event in found}
        assert len(by_id) == len(found)
        return by_id


def begin(each):
    return round(each["ts"] * NS)


def end(each):
    return round((each["ts"] + each["dur"]) * NS)


class TraceTest(LaunchedTest):
    def setUp(self):
        super().setUp()
        self.path = os.path.join(self.temporary_files, "trace.json")
        self.addCleanup(lambda: os.path.exists(self.path) and os.remove(self.path))

    def traced(self, what, ranks=2, status=0, **options):
        got, _, error = self.run_gpurun("-n", str(ranks), EMULATED, "--trace", self.path, *options.pop("more", ()),
                                        TRAFFIC, what, **options)
        self.assertEqual(got, status, error)
        self.said = error
        trace = Trace(self.path)
        self.check_shape(trace, ranks)
        return trace

    def check_shape(self, trace, ranks):
        """What holds for every trace."""
        self.assertEqual(sorted(trace.order), list(range(ranks)))
        for rank, pid in trace.order.items():
            self.assertRegex(trace.processes[pid], rf"^rank {rank} \(emulated device {rank}, pid {pid}\)$")
        by_row = collections.defaultdict(list)
        for each in trace.slices:
            self.assertGreaterEqual(each["ts"], 0)
            self.assertIn((each["pid"], each["tid"]), trace.rows)
            by_row[each["pid"], each["tid"]].append(each)
        for row in by_row.values():
            open_slices = []
            for each in sorted(row, key=lambda one: (begin(one), -end(one))):
                while open_slices and end(open_slices[-1]) <= begin(each):
                    open_slices.pop()
                if open_slices:
                    self.assertLessEqual(end(each), end(open_slices[-1]), each)
                open_slices.append(each)

    def check_arrows(self, trace):
        """Each send leads to its receive, forwards in time, each from and to a slice."""
        starts, ends = trace.arrows("s"), trace.arrows("f")
        self.assertEqual(sorted(starts), sorted(ends))
        sends = {(each["pid"], each["args"]["peer"], each["args"]["number"], each["args"]["order"] == "graph"): each
                 for each in trace.slices if each["name"].startswith("send to")}
        ranks = {pid: rank for rank, pid in trace.order.items()}
        for number, start in starts.items():
            self.assertLessEqual(start["ts"], ends[number]["ts"])
            self.assertTrue(self.around(trace, start, "send to"), start)
            receive = self.around(trace, ends[number], "receive from")[0]
            name = receive["args"]
            send = sends[start["pid"], ranks[receive["pid"]], name["number"], name["order"] == "graph"]
            self.assertEqual(send["args"]["tag"], name["tag"])
            self.assertEqual(send["args"]["bytes"], name["bytes"])
            self.assertEqual(name["peer"], ranks[start["pid"]])
            self.assertEqual(send["args"]["path"], name["path"])

    def check_device_arrows(self, trace):
        """Where both devices have said when, an arrow leads from what one sent to what the other got."""
        starts, ends = trace.arrows("s", "bytes"), trace.arrows("f", "bytes")
        self.assertEqual(sorted(starts), sorted(ends))
        for number, start in starts.items():
            self.assertLessEqual(start["ts"], ends[number]["ts"])
            (sent,), (got,) = self.around(trace, start, "to "), self.around(trace, ends[number], "from ")
            for key in ("tag", "bytes", "number"):
                self.assertEqual(sent["args"][key], got["args"][key])
        return len(starts)

    @staticmethod
    def around(trace, arrow, name):
        return [each for each in trace.slices if each["name"].startswith(name) and each["pid"] == arrow["pid"] and
                each["tid"] == arrow["tid"] and begin(each) <= round(arrow["ts"] * NS) < end(each)]

    def test_blocking_calls_and_their_messages(self):
        trace = self.traced("blocking")
        self.check_arrows(trace)
        for rank, kind, call in ((0, "send to 1", "gpurun_send"), (1, "receive from 0", "gpurun_recv")):
            for tag, order in ((1, "host"), (2, "stream"), (3, "host")):
                messages = trace.of(rank, kind, tag=tag, order=order)
                self.assertEqual([each["args"]["bytes"] for each in messages], [8, 1 << 20])
                calls = trace.of(rank, call, "gpurun_ssend", tag=tag)
                self.assertEqual([each["args"]["bytes"] for each in calls], [8, 1 << 20])
                for message, around in zip(messages, calls):
                    self.assertLessEqual(begin(around), begin(message))
                    self.assertLessEqual(end(message), end(around))
        for each in trace.of(0, "send to 1", tag=3):
            self.assertTrue(each["args"]["synchronous"])
            self.assertTrue(any(part["name"].startswith("waiting") for part in trace.inside(each)))

    def test_waiting_and_moving_are_parts_of_a_receive_one_after_the_other(self):
        trace = self.traced("blocking")
        receives = trace.of(1, "receive from 0")
        self.assertEqual(len(receives), 6)
        for each in receives:
            last = {"host": "moving", "stream": "enqueue"}[each["args"]["order"]]
            parts = sorted(trace.inside(each), key=begin)
            self.assertIn([part["name"] for part in parts], (["waiting for the message", last], [last]))
            self.assertEqual(end(parts[-1]), end(each))
            if len(parts) == 2:
                self.assertEqual((begin(parts[0]), end(parts[0])), (begin(each), begin(parts[1])))

    def test_the_device_says_when_messages_of_a_stream_moved(self):
        trace = self.traced("blocking")
        self.assertEqual(self.check_device_arrows(trace), 1)
        (sent,) = trace.of(0, "to 1")  # a target pulls what is large: the source's device does nothing
        got = trace.of(1, "from 0")[0]  # what follows is ready before its receive, or not
        for rank, each in ((0, sent), (1, got)):
            self.assertEqual((each["args"]["tag"], each["args"]["bytes"]), (2, 8))
            self.assertEqual(trace.inside(each)[-1]["name"], "moving")
            self.assertEqual(end(trace.inside(each)[-1]), end(each))
            self.assertEqual(trace.rows[each["pid"], each["tid"]],
                             ("device, messages out", "device, messages in")[rank])

    def test_a_receive_waits_on_its_device_for_a_sender_whose_stream_is_held(self):
        trace = self.traced("held")
        self.check_arrows(trace)
        self.assertEqual(self.check_device_arrows(trace), 1)
        (release,) = trace.of(1, "gpurun_graph_launch")
        (sent,) = trace.of(0, "to 1", tag=91)
        for tag, size, path in ((91, 64, "mailbox"), (93, 1 << 19, "direct")):
            for rank, kind in ((0, "send to 1"), (1, "receive from 0")):
                (enqueued,) = trace.of(rank, kind, tag=tag)
                self.assertEqual((enqueued["args"]["bytes"], enqueued["args"]["path"]), (size, path))
                self.assertLess(end(enqueued), begin(release))
            (got,) = trace.of(1, "from 0", tag=tag)
            *waiting, moving = trace.inside(got)  # the second is enqueued behind the first, and may find no wait
            self.assertEqual(moving["name"], "moving")
            self.assertGreater(begin(moving), begin(release))
            self.assertGreater(begin(moving), begin(sent))
            if tag == 91:
                self.assertEqual([each["name"] for each in waiting], ["waiting for the bytes"])
                self.assertEqual(begin(waiting[0]), begin(got))
        self.assertGreater(begin(sent), begin(release))

    def test_the_device_says_when_copy_engines_moved_messages_of_streams_by_every_path(self):
        tags = list(range(200, 209))
        for path, settings in (("direct", {}), ("direct", {"GPURUN_KERNEL_COPY_BYTES": "0"}),
                               ("bounce", {"GPURUN_PATH": "bounce", "GPURUN_RELAY_CHUNK_BYTES": "64K"}),
                               ("staged", {"GPURUN_PATH": "staged"}), ("direct", {"GPURUN_FENCE": "event"})):
            with self.subTest(**settings):
                trace = self.traced("streams", extra_env=settings)
                self.check_arrows(trace)
                for tag in tags:
                    (received,), (got,) = trace.of(1, "receive from 0", tag=tag), trace.of(1, "from 0", tag=tag)
                    self.assertGreaterEqual(begin(got), begin(received))
                    *waiting, moving = trace.inside(got)
                    self.assertEqual((moving["name"], end(moving)), ("moving", end(got)))
                    self.assertIn([each["name"] for each in waiting], ([], ["waiting for the bytes"]))
                # Of those the source's device has its part; what is pulled it does nothing for.
                relayed = [each["args"]["tag"] for each in trace.of(0, "send to 1")
                           if each["args"]["path"] != "direct" and each["args"]["order"] == "stream"]
                self.assertEqual([each["args"]["tag"] for each in trace.of(0, "to 1")], relayed)
                self.assertEqual(self.check_device_arrows(trace), len(relayed))
                self.assertEqual([each["args"]["path"] for each in trace.of(0, "send to 1", tag=200)], [path])

    def test_a_copy_engine_waits_on_its_device_for_a_sender_whose_stream_is_held(self):
        for path in ("direct", "bounce"):
            with self.subTest(path):
                trace = self.traced("held", extra_env={"GPURUN_KERNEL_COPY_BYTES": "0", "GPURUN_PATH": path})
                (release,) = trace.of(1, "gpurun_graph_launch")
                (got,) = trace.of(1, "from 0", tag=93)
                self.assertEqual(trace.inside(got)[-1]["name"], "moving")
                self.assertGreater(begin(trace.inside(got)[-1]), begin(release))

    def test_started_messages_that_share_an_operation_have_times_each(self):
        trace = self.traced("window")
        self.check_arrows(trace)
        self.assertEqual(self.check_device_arrows(trace), 20)
        for rank, kind in ((0, "to 1"), (1, "from 0")):
            tags = [each["args"]["tag"] for each in trace.of(rank, kind)]
            self.assertEqual(sorted(tags), list(range(100, 120)))

    def test_requests_overlap_in_rows_of_their_own(self):
        trace = self.traced("requests")
        self.check_arrows(trace)
        receives = trace.of(1, "receive from 0", request=True)
        self.assertEqual([each["args"]["tag"] for each in receives], list(range(10, 30)))
        self.assertEqual(len({each["tid"] for each in receives}), 20)
        self.assertEqual(len(trace.of(1, "gpurun_irecv")), 20)
        self.assertEqual(trace.of(1, "gpurun_waitall")[0]["args"], {"count": 20})

    def test_wildcards_probes_and_truncation(self):
        trace = self.traced("wildcards")
        self.check_arrows(trace)
        any_of, probed, cut = trace.of(1, "receive from 0")
        self.assertEqual((any_of["args"]["tag"], any_of["args"]["any_source"], any_of["args"]["any_tag"]),
                         (40, True, True))
        self.assertEqual(probed["args"]["tag"], 41)
        self.assertEqual((cut["args"]["bytes"], cut["args"]["truncated"]), (200, True))
        self.assertEqual(len(trace.of(1, "gpurun_mprobe")), 1)

    def test_collectives_are_calls_with_messages_of_their_own(self):
        trace = self.traced("collectives", ranks=3)
        self.check_arrows(trace)
        for rank in range(3):
            for call in ("gpurun_bcast", "gpurun_barrier"):
                self.assertEqual(len(trace.of(rank, call)), 1)
        kinds = collections.Counter(each["cat"] for each in trace.slices
                                    if each["name"].startswith(("send to", "receive from")))
        self.assertEqual(kinds, {"collective": 2 * (2 + 6)})  # a tree of two edges, two steps of three

    def test_messages_of_communicators_have_their_names(self):
        trace = self.traced("communicators")
        self.check_arrows(trace)
        for rank, kind in ((0, "send to 1"), (1, "receive from 0")):
            named, numbered = [each["args"]["communicator"] for each in trace.of(rank, kind, tag=70)]
            self.assertEqual(named, "rows")
            self.assertIsInstance(numbered, int)
        for each in trace.of(0, "send to 1"):
            if each["args"].get("collective") == "communicator set-up":
                self.assertNotIn("communicator", each["args"])

    def test_messages_of_graphs_are_recorded_when_they_are_captured(self):
        trace = self.traced("captured")
        self.check_arrows(trace)
        (send,), (receive,) = trace.of(0, "send to 1", tag=50), trace.of(1, "receive from 0", tag=50)
        self.assertEqual((send["args"]["order"], receive["args"]["order"]), ("graph", "graph"))
        self.assertIn("capture", [part["name"] for part in trace.inside(receive)])

    def test_every_run_of_every_message_of_a_graph_is_there_with_an_arrow_from_its_send(self):
        trace = self.traced("graphs")
        self.check_arrows(trace)
        paths = dict(zip(range(300, 307), ("mailbox", "mailbox", "direct", None, "mailbox", "direct", "mailbox")))
        starts, ends = trace.arrows("s", "run"), trace.arrows("f", "run")
        self.assertEqual(sorted(starts), sorted(ends))
        self.assertEqual(len(starts), 5 * len(paths))
        for tag, path in paths.items():
            sent, got = trace.of(0, "to 1", tag=tag), trace.of(1, "from 0", tag=tag)
            for runs in (sent, got):
                self.assertEqual([each["args"]["run"] for each in runs], list(range(5)))
                for each in runs:
                    self.assertEqual(each["args"]["order"], "graph")
                    self.assertNotIn("unfinished", each["args"])
                    self.assertEqual(trace.inside(each)[-1]["name"], "moving")
                    if path is not None:
                        self.assertEqual(each["args"]["path"], path)
            for one, other in zip(sent, got):
                self.assertLess(begin(one), end(other))
        self.assertEqual([each["args"]["path"] for each in trace.of(0, "to 1", tag=303)], ["bounce"] * 5)
        for number, start in starts.items():
            (one,), (other,) = self.around(trace, start, "to "), self.around(trace, ends[number], "from ")
            for key in ("tag", "bytes", "number", "run"):
                self.assertEqual(one["args"][key], other["args"][key])

    def test_runs_beyond_the_room_are_counted_and_said(self):
        trace = self.traced("many-runs", extra_env={"GPURUN_TRACE_EVENTS": "150"})
        self.assertEqual(trace.lost_runs, 2 * 50)
        self.check_own_line(self.said, "100 runs of messages of graphs are missing", "first 150")
        for rank, kind in ((0, "to 1"), (1, "from 0")):
            self.assertEqual([each["args"]["run"] for each in trace.of(rank, kind, tag=310)], list(range(150)))

    def test_what_a_killed_rank_s_graph_had_moved_is_there(self):
        trace = self.traced("graph-death", status=128 + signal.SIGKILL, more=["--keep-going"])
        self.assertEqual([each["args"]["run"] for each in trace.of(0, "to 1", tag=320)], [0])
        self.assertIn(0, [each["args"]["run"] for each in trace.of(1, "from 0", tag=320)])

    def test_each_thread_has_a_track(self):
        trace = self.traced("threads")
        self.check_arrows(trace)
        for rank, call in ((0, "gpurun_send"), (1, "gpurun_recv")):
            tracks = collections.Counter(each["tid"] for each in trace.of(rank, call))
            self.assertEqual(sorted(tracks.values()), [50] * 4)
            for track in tracks:
                self.assertRegex(trace.rows[trace.order[rank], track], r"^calls of thread \d+$")
            main_thread = {each["tid"] for each in trace.of(rank, "gpurun_init", "gpurun_finalize")}
            self.assertEqual([trace.rows[trace.order[rank], track] for track in main_thread],
                             ["calls of the main thread"])

    def test_what_a_killed_rank_did_is_there(self):
        trace = self.traced("death", status=128 + signal.SIGKILL, more=["--keep-going"])
        self.assertEqual([each["args"]["tag"] for each in trace.of(0, "send to 1")], [60])
        self.assertEqual([each["args"]["tag"] for each in trace.of(0, "receive from 1")], [61])
        self.assertTrue(trace.of(1, "receive from 0", tag=62)[0]["args"]["failed"])
        self.assertEqual(trace.of(0, "gpurun_finalize"), [])

    def test_what_a_job_does_when_it_is_interrupted_is_there(self):
        process = self.start("-n", "2", EMULATED, "--trace", self.path, TRAFFIC, "interrupted")
        self.assertEqual(process.stdout.readline(), b"waits\n")
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=LONG_S)
        self.assertEqual(process.returncode, 128 + signal.SIGINT)
        trace = Trace(self.path)
        self.check_shape(trace, 2)
        (receive,) = trace.of(0, "receive from 1", tag=70)
        self.assertTrue(receive["args"]["unfinished"])
        self.assertEqual([part["name"] for part in trace.inside(receive)], ["waiting for the message"])

    def test_events_beyond_the_room_are_counted_and_said(self):
        trace = self.traced("threads", extra_env={"GPURUN_TRACE_EVENTS": "100"})
        self.assertGreater(trace.lost, 200)  # 200 calls on each rank, each with its message
        self.check_own_line(self.said, f"{trace.lost} events are missing", "first 100", "GPURUN_TRACE_EVENTS")

    def test_without_gpurun_init_there_are_ranks_and_nothing_else(self):
        status, _, error = self.run_gpurun("-n", "2", EMULATED, "--trace", self.path, "true")
        self.assertEqual((status, error), (0, ""))
        trace = Trace(self.path)
        self.check_shape(trace, 2)
        self.assertEqual(trace.slices, [])

    def test_a_part_of_it_is_drawn(self):
        trace = self.traced("blocking")
        picture = os.path.join(self.temporary_files, "part.svg")
        length = str(round(max(each["ts"] + each["dur"] for each in trace.slices)) + 1)
        subprocess.run([sys.executable, PLOT, self.path, picture, "--from", "0", "--length", length], check=True)
        drawn = xml.etree.ElementTree.parse(picture)
        os.remove(picture)
        arrows = [each for each in drawn.iter() if each.get("class") == "arrow"]
        self.assertEqual(len(arrows), 8)  # of six messages, one of which has another between devices; of the legend
        texts = {each.text for each in drawn.iter("{http://www.w3.org/2000/svg}text")}
        self.assertTrue(set(trace.processes.values()) | {"messages out", "messages in"} <= texts, texts)
        legend = {"time (us)", "call", "message", "part of a message: waiting", "part of a message: enqueue, or bytes move",
                  "from a send to its receive"}
        self.assertLessEqual(legend, texts)
        published = xml.etree.ElementTree.parse(os.path.join(os.path.dirname(PLOT), "trace.svg"))
        self.assertLessEqual(legend, {each.text for each in published.iter("{http://www.w3.org/2000/svg}text")})

    def test_a_file_that_would_be_too_large_lacks_the_last_events_and_says_how_many(self):
        whole = self.traced("threads")
        self.assertEqual(whole.left_out, 0)
        self.assertEqual(self.said, "")
        size = os.path.getsize(self.path)
        self.assertGreater(size, 200_000, "or there is nothing to leave out")
        trace = self.traced("threads", extra_env={"GPURUN_TRACE_BYTES": "100K"})
        self.assertLessEqual(os.path.getsize(self.path), 102_400)
        self.assertGreater(os.path.getsize(self.path), 90_000)
        self.check_own_line(self.said, f"the last {trace.left_out} events are left out", "102400 bytes",
                            "GPURUN_TRACE_BYTES")
        self.assertGreater(trace.left_out, 0)
        self.assertEqual(set(trace.processes), set(trace.processes) & {each["pid"] for each in trace.slices},
                         "each rank has a share")

    def test_an_older_file_is_replaced(self):
        with open(self.path, "w", encoding="utf-8") as file:
            file.write("old")
        self.traced("collectives")
        self.assertEqual(os.listdir(self.temporary_files), ["trace.json"])

    def test_a_file_that_cannot_be_made_is_refused_before_anything_starts(self):
        for path, part in (("/nowhere/a.json", "No such file"), (self.temporary_files, "is a folder"),
                           ("/dev/null", "no ordinary file"), ("", "needs the name")):
            status, out, error = self.run_gpurun("-n", "2", EMULATED, "--trace", path, "echo", "started")
            self.assertEqual((status, out), (2, b""))
            self.check_own_line(error, "--trace", part)
            self.assertNotIn("partial", error)  # the name of the file before it is complete


if __name__ == "__main__":
    main()
