"""What gpurun says of jobs that hang, when it is asked (SIGQUIT) and by itself (--hang-timeout)."""
import os
import re
import signal
import subprocess
import sys
import threading
import time

from launched import (EMULATED, GPURUN, WIRE_RANK, LaunchedTest, children_of, command_of, cpu_seconds, main, marked,
                      on_terminal, wait_until)

HANGING, JOB_TESTS = [os.path.abspath(path) for path in sys.argv[3:5]]
TWO_DEVICES = ("--device=emulated:2", "--oversubscribe")
TITLE = "what each rank waits for"
# Where tables are slow to come: sanitizers, and more jobs than cores.
LATE_S = 30


class Hangs(LaunchedTest):
    def start_hanging(self, behaviour, ranks=3, options=(), ups=None, **more):
        """Once every rank has said that it is about to hang. What stderr says gathers in self.said, without gpurun's name."""
        process = self.start("-n", str(ranks), *TWO_DEVICES, *options, HANGING, behaviour, **more)
        self.listen_to(process)
        for _ in range(ranks if ups is None else ups):
            self.assertEqual(process.stdout.readline(), b"up\n")
        return process

    def listen_to(self, process):
        self.said = ""
        reader = threading.Thread(target=self.gather, args=[process])
        reader.start()
        self.addCleanup(lambda: self.assertNotIn("Sanitizer", self.said))
        self.addCleanup(reader.join)
        self.addCleanup(process.kill)

    def gather(self, process):
        for line in process.stderr:
            self.said += line.decode().removeprefix("gpurun: ")

    def ask(self, process, *patterns):
        """Until a table has all of these: ranks may be on their way to where they hang. Returns the table."""
        end = time.monotonic() + LATE_S
        while time.monotonic() < end:
            asked_at = len(self.said)
            process.send_signal(signal.SIGQUIT)
            found = lambda: all(re.search(pattern, self.said[asked_at:]) for pattern in patterns)
            wait_until(lambda: found() or TITLE in self.said[asked_at:], LATE_S)
            if wait_until(found, 0.1):  # it is printed at once
                self.assertIsNone(process.poll(), "the job has not gone on")
                return self.said[asked_at:]
        self.fail(f"none of the tables has {patterns}:\n{self.said}")

    def check_hang(self, behaviour, *patterns, **more):
        process = self.start_hanging(behaviour, **more)
        table = self.ask(process, *patterns)
        process.terminate()
        self.assertEqual(process.wait(LATE_S), 128 + signal.SIGTERM)
        return table

    def test_three_ranks_that_wait_for_each_other_are_a_cycle(self):
        table = self.check_hang(
            "cycle", r"deadlock: rank 0 waits for 1 \(gpurun_recv, tag 7\), rank 1 waits for 2 \(gpurun_recv, tag 7\), "
                     r"rank 2 waits for 0 \(gpurun_recv, tag 7\)\n")
        for rank in range(3):
            self.assertRegex(table, rf"\n +{rank}  gpurun_recv +\d+\.\d s +recv +{(rank + 1) % 3} +7 +64 +a matching message\n")

    def test_a_message_with_another_tag_is_told_of(self):
        table = self.check_hang("wrong-tag", r"rank 1 waits for tag 7 from rank 0, and has an unexpected message with tag 8 "
                                             r"from rank 0 \(48 bytes\)", r"ranks 1-2 wait for rank 0")
        self.assertNotIn("deadlock", table)

    def test_of_many_messages_that_fit_nothing_the_one_that_nearly_fits_is_told_of(self):
        self.check_hang("crowd", r"rank 2 waits for tag 7 from rank 1, and has an unexpected message with tag 8 from rank 1 "
                                 r"\(24 bytes\)", r"and 45 more unexpected messages\n")

    def test_who_waits_for_a_rank_that_computes_is_not_deadlocked(self):
        table = self.check_hang("compute", r"ranks 1-2 wait for rank 0, which is not in a gpurun call\n")
        self.assertRegex(table, r"\n +0  - .* not in a gpurun call; its process runs\n")
        self.assertNotIn("deadlock", table)

    def test_one_of_several_messages_is_enough_and_the_only_rank_that_could_send_it_is_named(self):
        table = self.check_hang("wait-any", r"1  gpurun_waitany \(any of 2\)", r"ranks 1-2 wait for rank 0,",
                                r"a matching message; no call waits for this")
        self.assertNotIn("deadlock", table)

    def test_of_many_messages_the_first_are_shown_and_the_rest_are_counted(self):
        table = self.check_hang("wait-all", r"gpurun_waitall \(all of 20\)", r"and 14 more\n", r"and 14 more that no call "
                                            r"waits for\n", r"deadlock: rank 0 waits for 1 \(gpurun_waitall, tag 0\)")
        self.assertLess(table.count("\n"), 60)

    def test_a_rank_that_is_missing_in_a_collective_is_named(self):
        self.check_hang("barrier", r"gpurun_barrier: ranks 0-1,3 wait in it; rank 2 is not in a gpurun call\n",
                        ranks=4)

    def test_a_member_that_is_missing_in_a_collective_of_a_communicator_is_named_and_others_are_not(self):
        table = self.check_hang("comm-barrier", r"gpurun_barrier of rows: ranks 0-1 wait in it; rank 2 is not in a gpurun "
                                                r"call\n", ranks=4)
        self.assertRegex(table, r"\n +0  gpurun_barrier .* barrier +rows ")

    def test_a_message_of_another_communicator_is_told_of(self):
        self.check_hang("wrong-comm", r"rank 1 waits for tag 7 from rank 0 in rows, and has an unexpected message with tag 7 "
                                      r"from rank 0 in GPURUN_COMM_WORLD \(48 bytes\)")

    def test_a_rank_that_is_missing_where_communicators_are_made_is_named(self):
        self.check_hang("comm-split", r"gpurun_comm_split: ranks 0-1,3 wait in it; rank 2 is not in a gpurun call\n", ranks=4)

    def test_a_large_send_that_nobody_receives(self):
        self.check_hang("large-send", r"0  gpurun_send .* send +1 +3 +1048576 +rank 1 to receive this\n",
                        r"rank 0 waits for rank 1, which is not in a gpurun call", ranks=2)

    def test_a_stream_that_waits_for_another_rank_s_stream(self):
        self.check_hang("held-stream", r"gpurun_stream_synchronize .* stream 0x",
                        r"fence edge forward of slot \d+ \(at \d+, wants \d+\)",
                        r"rank 1 waits for its stream 0x[0-9a-f]+, in which a message from rank 0 waits until that rank's "
                        r"stream reaches the send", ranks=2)

    def test_a_relay_says_how_far_it_has_come(self):
        self.check_hang("relay", r"1  gpurun_recv .* recv +0 +2 +1048576 +staged +matched; rank 0 to fill chunk 1 "
                                 r"of \d+\n", ranks=2, extra_env={"GPURUN_PATH": "staged", "GPURUN_RELAY_CHUNK_BYTES": "64K"})

    def test_messages_of_graphs_that_wait_are_shown_with_the_run_that_they_wait_for(self):
        table = self.check_hang("graph-ahead", r"\n +0  a graph +\d+\.\d s +send in graph +1 +30 +700000 +direct +rank 1's "
                                               r"graph to take this in its run 1\n", ranks=2)
        self.assertNotIn("deadlock", table)

    def test_messages_of_graphs_that_wait_for_each_other_are_told_of_in_a_circle(self):
        table = self.check_hang("graph-cycle", r"messages of graphs wait for each other: rank 0's from rank 1 \(tag 20, run "
                                               r"1\), rank 1's from rank 0 \(tag 20, run 1\)\n", ranks=2)
        for rank in range(2):
            self.assertRegex(table, rf"\n +{rank}  a graph +\d+\.\d s +recv in graph +{1 - rank} +20 +4096 +mailbox +"
                                    rf"rank {1 - rank}'s graph to send this in its run 1\n")

    def test_a_graph_s_message_that_waits_for_a_rank_in_a_call_is_beside_that_call(self):
        self.check_hang("graph-and-call", r"\n +0  gpurun_recv .* recv +1 +41 ", r"\n +1  a graph .* recv in graph +0 +40 +8 "
                                          r"+mailbox +rank 0's graph to send this in its run 1\n", ranks=2)

    def test_a_graph_s_message_counts_as_a_hang_once_in_no_call_of_gpurun_s(self):
        process = self.start_hanging("graph-silent", ranks=2, options=["--hang-timeout=0.4"])
        shown = lambda: len(re.findall(r"\n +0  a graph .* rank 1's graph to take this in its run 1\n", self.said))
        self.assertTrue(wait_until(lambda: shown() == 1, LATE_S), self.said)
        time.sleep(1.5)
        self.assertEqual(shown(), 1, self.said)
        self.assertIsNone(process.poll())

    def test_loans_that_do_not_come_back_are_shown_with_their_age(self):
        self.check_hang("loans", r"\n +0  gpurun_waitall .* loan +1 +50 +1000 +loan +rank 1 to give this back, lent \d+\.\d s "
                                 r"ago\n", r" loan +1 +51 +1001 +- +rank 1 to borrow or receive this, lent \d+\.\d s ago",
                        r"deadlock: rank 0 waits for 1 \(gpurun_waitall, tag 50\), rank 1 waits for 0", ranks=2)

    def test_probes_of_any_source_and_messages_to_oneself_can_deadlock(self):
        self.check_hang("probe", r"deadlock: rank 0 waits for 1 \(gpurun_probe, tag 4, any source\)", ranks=2)
        self.check_hang("self", r"deadlock: rank 0 waits for itself \(gpurun_ssend, tag 6\)", ranks=1)

    def test_each_thread_of_a_rank_has_its_wait(self):
        table = self.check_hang("threads", r"gpurun_recv \[\d+\] .* recv +1 +10 ", r"recv +1 +11 ", r"recv +1 +12 ",
                                r"deadlock: ", ranks=2)
        self.assertEqual(len(set(re.findall(r" 0  gpurun_recv \[(\d+)\]", table))), 3)

    def test_who_has_not_come_to_init_is_named_by_those_that_wait_there(self):
        self.check_hang("in-init", r"0  - .* no gpurun_init\(\) yet, or not a gpurun program; sleeps",
                        r"1  gpurun_init .* rank 0 to call gpurun_init\(\)", ups=1)

    def test_a_program_that_is_none_of_gpurun_s(self):
        process = self.start("-n", "4", EMULATED, "sh", "-c", "echo up; exec sleep 100")
        for _ in range(4):
            self.assertEqual(process.stdout.readline(), b"up\n")
        process.send_signal(signal.SIGQUIT)
        lines = [process.stderr.readline().decode() for _ in range(6)]
        self.assertIn("(SIGQUIT):\n", lines[0])
        for rank, line in enumerate(lines[2:]):
            self.assertRegex(line, rf"^gpurun:  +{rank}  no gpurun_init\(\) yet, or not a gpurun program; (sleeps|runs)")

    def test_a_stopped_rank_is_said_to_be(self):
        process = self.start_hanging("cycle")
        ranks = [pid for pid in children_of(process.pid) if self.is_rank(pid)]
        stopped = next(pid for pid in ranks if self.rank_of(pid) == 1)
        os.kill(stopped, signal.SIGSTOP)
        table = self.ask(process, r"1  - .* does not answer; is stopped\n", r"ranks 0,2 wait, directly or through others, for rank 1, which is stopped")
        self.assertNotIn("deadlock", table)
        os.kill(stopped, signal.SIGCONT)
        self.ask(process, r"deadlock: ")

    @staticmethod
    def is_rank(pid, program=HANGING):
        try:
            return os.readlink(f"/proc/{pid}/exe") == os.path.realpath(program)
        except OSError:  # it has ended
            return False

    @staticmethod
    def rank_of(pid):
        with open(f"/proc/{pid}/environ", "rb") as file:
            return int(next(word[12:] for word in file.read().split(b"\0") if word.startswith(b"GPURUN_RANK=")))

    def test_a_hang_is_told_of_once_and_again_when_something_has_moved(self):
        process = self.start_hanging("twice", ranks=2, options=["--hang-timeout=0.4"], stdin=subprocess.PIPE)
        # Of the receive with this tag: a slow start may be taken for a hang, too.
        tables = lambda tag: len(re.findall(rf"\n +1  gpurun_recv +\d+\.\d s +recv +0 +{tag} ", self.said))
        self.assertTrue(wait_until(lambda: tables(1) == 1, LATE_S), self.said)
        time.sleep(1.5)
        self.assertEqual(tables(1), 1, self.said)
        self.assertIn("(--hang-timeout=0.4):\n", self.said)
        process.stdin.write(b"x")
        process.stdin.flush()
        self.assertEqual(process.stdout.readline(), b"on\n")
        self.assertTrue(wait_until(lambda: tables(2) == 1, LATE_S), self.said)
        time.sleep(1)
        self.assertEqual((tables(1), tables(2)), (1, 1), self.said)
        self.assertIsNone(process.poll())

    def test_a_job_whose_time_is_over_says_first_what_its_ranks_wait_for(self):
        process = self.start_hanging("cycle", options=["--timeout=2"])
        self.assertEqual(process.wait(LATE_S), 124)
        wait_until(lambda: self.said.endswith('ended\n'), LATE_S)
        self.assertIn("what each rank waits for (--timeout=2):\n", self.said)
        self.assertIn("deadlock: ", self.said)
        self.assertTrue(self.said.endswith("\nthe time of --timeout=2 is over; the job was ended\n"), self.said)

    def test_a_rank_that_does_not_answer_does_not_keep_a_job_whose_time_is_over(self):
        process = self.start_hanging("busy", ranks=2, options=["--timeout=3", "--grace=0.2"])
        os.kill(next(pid for pid in marked(self.mark) if command_of(pid) == "hanging"), signal.SIGSTOP)
        self.assertEqual(process.wait(LATE_S), 124)
        self.assertIn("the time of --timeout=3 is over", self.said)

    def test_without_a_hang_nothing_is_said(self):
        process = self.start_hanging("busy", ranks=2, options=["--hang-timeout=8"])  # of a machine that stands still, too
        while_starting = self.said.count(TITLE)
        time.sleep(5)  # at least two looks
        self.assertEqual(self.said.count(TITLE), while_starting, self.said)
        self.assertIsNone(process.poll())

    def test_asking_again_and_again_disturbs_nobody(self):
        process = self.start_hanging("busy", ranks=2)
        for _ in range(20):
            process.send_signal(signal.SIGQUIT)
            time.sleep(0.02)
        self.assertTrue(wait_until(lambda: TITLE in self.said, LATE_S), self.said)
        self.assertNotIn("deadlock", self.said)
        self.assertIsNone(process.poll())

    def test_messages_of_all_kinds_arrive_while_ranks_are_asked_all_the_time(self):
        process = self.start("-n", "3", *TWO_DEVICES, JOB_TESTS, "--test-suite=requests", stdout=subprocess.DEVNULL)
        self.listen_to(process)
        self.assertTrue(wait_until(lambda: any(self.is_rank(pid, JOB_TESTS) for pid in children_of(process.pid)), LATE_S))
        while process.poll() is None:
            process.send_signal(signal.SIGQUIT)
            time.sleep(0.03)
        self.assertEqual(process.returncode, 0, self.said)
        self.assertIn(TITLE, self.said)
        self.assertNotIn("deadlock", self.said)

    def test_ranks_that_die_while_they_are_asked_end_the_job_as_ever(self):
        for _ in range(4):
            process = self.start_hanging("cycle")
            ranks = [pid for pid in children_of(process.pid) if self.is_rank(pid)]
            process.send_signal(signal.SIGQUIT)
            os.kill(ranks[0], signal.SIGKILL)
            self.assertEqual(process.wait(LATE_S), 128 + signal.SIGKILL)

    def test_a_job_that_hangs_and_is_asked_nothing_uses_no_cpu(self):
        process = self.start_hanging("cycle")
        self.ask(process, "deadlock")
        pids = [process.pid, *(pid for pid in children_of(process.pid) if self.is_rank(pid))]
        times = []
        for _ in range(3):  # the table may still be on its way in the first
            times.append([cpu_seconds(pid) for pid in pids])
            if times[-1:] == times[-2:-1]:
                return
            time.sleep(1.5)
        self.assertEqual([cpu_seconds(pid) for pid in pids], times[-1], times)

    def test_control_backslash_asks_and_the_job_goes_on(self):
        pid, terminal = on_terminal([GPURUN, "-n", "2", *TWO_DEVICES, HANGING, "cycle"], self.environment())
        self.addCleanup(os.close, terminal)
        seen = b""
        while seen.count(b"up\r\n") < 2:
            seen += os.read(terminal, 4096)
        os.write(terminal, b"\x1c")
        while TITLE.encode() not in seen:
            seen += os.read(terminal, 4096)
        self.assertEqual(len([rank for rank in marked(self.mark) if self.is_rank(rank)]), 2)
        os.write(terminal, b"\x03")
        try:
            while True:
                seen += os.read(terminal, 4096)
        except OSError:
            pass
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), 130, seen)

    def test_a_rank_that_answers_nonsense_ends_the_job_in_one_line(self):
        for behaviour in ("answers-unasked", "answers-too-much", "answers-garbage", "answers-half"):
            with self.subTest(behaviour):
                process = self.start("-n", "3", EMULATED, WIRE_RANK, "stay", f"1={behaviour}")
                self.assertEqual(process.stdout.readline(), b"up\n")
                process.send_signal(signal.SIGQUIT)
                _, error = process.communicate(timeout=LATE_S)
                self.assertEqual(process.returncode, 1)
                self.check_own_line(error.decode(), "rank 1 (pid ", "sent what gpurun does not understand")

    def test_a_rank_that_reads_questions_and_never_answers_does_not_keep_the_others_waiting(self):
        process = self.start("-n", "3", EMULATED, WIRE_RANK, "stay", "1=up-and-stay")
        self.assertEqual(process.stdout.readline(), b"up\n")
        before = time.monotonic()
        process.send_signal(signal.SIGQUIT)
        lines = [process.stderr.readline().decode() for _ in range(5)]
        self.assertLess(time.monotonic() - before, 10)
        for rank, line in enumerate(lines[2:]):
            self.assertRegex(line, rf"^gpurun:  +{rank}  does not answer; sleeps")


main()
