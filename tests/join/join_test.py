"""Jobs that gpurun did not start: ranks meet by a name, nothing hangs, and nothing is left behind.

join_test.py GPURUN MEMBER
"""
import multiprocessing
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import unittest

from own_folder import OwnFolderTest

SECONDS = 30  # nothing here takes longer, even on a busy machine


def spawned(rank, environment, member, results):
    """In a process of multiprocessing, which has started it by spawn."""
    done = subprocess.run([member, "ring", "spawned", str(rank), "2"], env=environment, capture_output=True, text=True,
                          timeout=SECONDS)
    results.put((rank, done.returncode, done.stdout + done.stderr))


class Join(OwnFolderTest):
    seconds = SECONDS
    variables = {"GPURUN_ERRORS": "return", "GPURUN_DEVICE": "emulated:0/1", "GPURUN_EMULATED_MEMORY": "64M"}

    def start(self, *arguments, **variables):
        process = subprocess.Popen([MEMBER, *map(str, arguments)], env=self.environment | variables, text=True,
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.started.append(process)
        return process

    def end(self, process):
        out, _ = process.communicate(timeout=SECONDS)
        return process.returncode, out

    def check_nothing_left(self):
        self.until(lambda: not self.supervisors(), "a supervisor is left")
        super().check_nothing_left()

    def pair(self, mode):
        """Two ranks that have spoken to each other, and the process that watches over them."""
        ranks = [self.start(mode, "pair", rank, 2) for rank in range(2)]
        for rank in ranks:
            self.assertIn("got", rank.stdout.readline())
        return ranks

    # ---- how ranks come

    def test_ranks_join_by_a_call(self):
        for ranks in (1, 2, 5):
            done = [self.end(each) for each in [self.start("ring", "call", rank, ranks) for rank in range(ranks)]]
            for rank, (status, out) in enumerate(done):
                self.assertEqual(status, 0, out)
                self.assertIn(f"rank {rank} of {ranks} got {(rank - 1) % ranks}", out)

    def test_an_unchanged_program_joins_by_its_environment(self):
        both = [self.start(GPURUN_JOB="shell", GPURUN_RANK=str(rank), GPURUN_SIZE="2") for rank in range(2)]
        self.assertEqual([self.end(each)[0] for each in both], [0, 0])

    def test_a_shell_starts_a_job(self):
        line = f'for r in 0 1 2; do GPURUN_JOB=sh GPURUN_RANK=$r GPURUN_SIZE=3 "{MEMBER}" & done; wait'
        done = subprocess.run(["sh", "-c", line], env=self.environment, capture_output=True, text=True, timeout=SECONDS)
        self.assertEqual(sorted(re.findall(r"rank (\d) of 3 got (\d)", done.stdout)),
                         [("0", "2"), ("1", "0"), ("2", "1")], done)

    def test_the_name_is_enough_under_another_launcher(self):
        for rank_name, size_name in (("RANK", "WORLD_SIZE"), ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
                                     ("SLURM_PROCID", "SLURM_STEP_NUM_TASKS"), ("PMI_RANK", "PMI_SIZE")):
            both = [self.start(GPURUN_JOB="other", **{rank_name: str(rank), size_name: "2"}) for rank in range(2)]
            for rank, each in enumerate(both):
                status, out = self.end(each)
                self.assertEqual((status, f"rank {rank} of 2" in out), (0, True), out)

    def test_without_a_name_one_line_says_what_to_do(self):
        status, out = self.end(self.start(RANK="1", WORLD_SIZE="4"))
        self.assertEqual(status, 0, out)
        self.assertRegex(out, "process 1 of 4 of torchrun.*set GPURUN_JOB")
        self.assertEqual(len(out.splitlines()), 2, out)

    def test_tasks_of_srun_are_not_jobs_of_one_rank_unless_that_is_said(self):
        task = {"SLURM_PROCID": "1", "SLURM_STEP_NUM_TASKS": "4"}
        status, out = self.end(self.start(**task))
        self.assertNotEqual(status, 0, out)
        self.assertIn("this is task 1 of 4 that srun has started", out)
        self.assertIn("leave srun out", out)
        status, out = self.end(self.start(GPURUN_SIZE="1", **task))
        self.assertEqual((status, "rank 0 of 1" in out), (0, True), out)
        script = {"SLURM_PROCID": "0", "SLURM_NTASKS": "4"}  # of a batch script, which is no step
        status, out = self.end(self.start(**script))
        self.assertEqual((status, len(out.splitlines())), (0, 1), out)

    def test_processes_of_multiprocessing_join(self):
        context = multiprocessing.get_context("spawn")
        results = context.Queue()
        both = [context.Process(target=spawned, args=(rank, self.environment, MEMBER, results)) for rank in range(2)]
        for each in both:
            each.start()
        done = sorted(results.get(timeout=SECONDS) for _ in both)
        for each in both:
            each.join(SECONDS)
        self.assertEqual([status for _, status, _ in done], [0, 0], done)

    def test_a_name_can_be_used_again(self):
        for _ in range(20):
            both = [self.start("ring", "again", rank, 2) for rank in range(2)]
            for each in both:
                status, out = self.end(each)
                self.assertEqual(status, 0, out)

    def test_a_job_outlives_the_time_for_joining(self):
        ranks = [self.start("wait", "long", rank, 2, GPURUN_JOIN_TIMEOUT="1") for rank in range(2)]
        for each in ranks:
            self.assertIn("got", each.stdout.readline())
        with self.assertRaises(subprocess.TimeoutExpired):
            ranks[0].wait(2.5)
        ranks[0].kill()
        self.assertEqual(self.end(ranks[1])[0], 0)

    # ---- deaths

    def test_a_rank_that_is_killed_is_lost(self):
        ranks = self.pair("wait")
        ranks[0].kill()
        status, out = self.end(ranks[1])
        self.assertEqual(status, 0, out)

    def test_without_a_supervisor_ranks_lose_each_other(self):
        ranks = self.pair("wait")
        for pid in self.supervisors():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        for each in ranks:
            status, out = self.end(each)
            self.assertEqual(status, 0, out)
        self.until(lambda: not os.listdir(self.folder), "the socket is left")
        self.assertEqual(self.end(self.start("ring", "pair", 0, 1))[0], 0)  # the name is free, too

    def test_signals_to_every_gpurun_do_not_end_a_supervisor(self):
        ranks = self.pair("wait")
        supervisors = self.supervisors()
        for number in (signal.SIGQUIT, signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2):
            for pid in supervisors:
                os.kill(pid, number)
        listed = subprocess.run([self.environment["GPURUN_LAUNCHER"], "jobs"], env=self.environment, text=True,
                                capture_output=True, timeout=self.seconds)
        self.assertIn("job pair: 2 ranks", listed.stdout)
        self.assertEqual(self.supervisors(), supervisors)
        ranks[0].kill()
        status, out = self.end(ranks[1])
        self.assertEqual(status, 0, out)

    def test_the_socket_of_a_killed_supervisor_goes(self):
        ranks = self.pair("wait")
        supervisor = min(self.supervisors())  # the other one is its guard
        os.kill(supervisor, signal.SIGKILL)
        self.until(lambda: not os.listdir(self.folder), "the socket is left")
        self.assertEqual([self.end(each)[0] for each in ranks], [0, 0])

    def test_abort_ends_all_ranks(self):
        ranks = [self.start("abort", "abort", rank, 2) for rank in range(2)]
        self.assertEqual(self.end(ranks[0])[0], 3)
        self.assertEqual(self.end(ranks[1])[0], -signal.SIGTERM)

    # ---- what does not fit together

    def refused(self, pattern, *arguments, **variables):
        status, out = self.end(self.start(*arguments, **variables))
        self.assertEqual(status, 1, out)
        self.assertRegex(out, pattern)

    def test_ranks_that_do_not_come_are_named(self):
        both = [self.start("init", "late", rank, 4, GPURUN_JOIN_TIMEOUT="1") for rank in (0, 2)]
        for each in both:
            self.assertRegex(self.end(each)[1], r"ranks 1(,| and) ?3 of 4 did not join job late within 1 s")

    def gathering(self, name):
        """A rank 0 of 2 that waits for rank 1."""
        waiting = self.start("ring", name, 0, 2)
        self.until(lambda: len(self.supervisors()) == 2, "no supervisor")
        return waiting

    def test_sizes_that_differ(self):
        waiting = self.start("ring", "sizes", 0, 2, GPURUN_JOIN_TIMEOUT="3")
        self.until(lambda: len(self.supervisors()) == 2, "no supervisor")
        time_of_joining = time.monotonic()
        self.refused("says that job sizes has [23] ranks", "init", "sizes", 1, 3)
        self.assertLess(time.monotonic() - time_of_joining, SECONDS)
        waiting.kill()

    def test_a_rank_twice(self):
        waiting = self.pair("wait")
        self.refused(r"job pair has a rank 0 already \(pid", "init", "pair", 0, 2)
        waiting[0].kill()
        self.assertEqual(self.end(waiting[1])[0], 0)

    def test_a_rank_that_ends_while_others_gather_can_come_again(self):
        waiting = self.gathering("gather")
        first = self.start("ring", "gather", 0, 3)  # a size that none else says
        self.assertNotEqual(self.end(first)[0], 0)
        self.refused("has a rank 0 already", "init", "gather", 0, 2)
        waiting.kill()
        waiting.wait()
        both = [self.start("ring", "gather", rank, 2) for rank in range(2)]
        self.assertEqual([self.end(each)[0] for each in both], [0, 0])

    def test_wrong_arguments(self):
        self.refused("ranks are 0 to size - 1", "init", "wrong", 2, 2)
        self.refused("ranks are 0 to size - 1", "init", "wrong", -1, 2)
        self.refused("at most 256 ranks", "init", "wrong", 0, 1000)
        for name in ("", "a/b", "..", ".hidden", "x" * 65, "tab\t"):
            self.refused("cannot be the name of a job", "init", name, 0, 1)
        self.refused("set GPURUN_RANK and GPURUN_SIZE", GPURUN_JOB="half")
        self.refused("no job is named", GPURUN_SIZE="2")

    def test_a_program_that_is_not_gpurun(self):
        self.refused("GPURUN_LAUNCHER=/nowhere", "init", "none", 0, 1, GPURUN_LAUNCHER="/nowhere")
        self.refused("not the gpurun of this library", "init", "none", 0, 1, GPURUN_LAUNCHER=shutil.which("false"))
        self.refused("not\\s+the gpurun of this library", "init", "none", 0, 1, GPURUN_LAUNCHER=shutil.which("true"))

    def test_a_folder_that_others_can_enter(self):
        os.mkdir(self.folder + "/gpurun", 0o755)
        self.refused("nobody else can enter", "init", "open", 0, 1)
        os.rmdir(self.folder + "/gpurun")

    def test_a_rank_of_gpurun_does_not_join_another_job(self):
        done = subprocess.run([GPURUN, "-n", "1", "--device=emulated:1", MEMBER, "init", "other", "0", "1"],
                              env=self.environment, capture_output=True, text=True, timeout=SECONDS)
        self.assertIn("call gpurun_init()", done.stdout)

    @unittest.skipUnless(os.geteuid() == 0, "needs root, to be another user")
    def test_a_stranger_is_refused(self):
        waiting = self.gathering("mine")
        for path in (self.folder, self.folder + "/gpurun"):
            os.chmod(path, 0o711)
        os.chmod(self.folder + "/gpurun/mine", 0o777)
        script = (f"import os, socket\nos.setgid(65534); os.setuid(65534)\n"
                  f"s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)\n"
                  f"s.connect('{self.folder}/gpurun/mine')\nprint(s.recv(4096))")
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=SECONDS)
        self.assertIn("another user", done.stdout, done.stderr)
        for path in (self.folder, self.folder + "/gpurun"):
            os.chmod(path, 0o700)
        waiting.kill()


if __name__ == "__main__":
    GPURUN, MEMBER = map(os.path.abspath, sys.argv[1:3])
    unittest.main(argv=sys.argv[:1])
