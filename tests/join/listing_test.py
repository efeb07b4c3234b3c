"""gpurun jobs: it lists what runs, waits and is lent, and nothing that it meets keeps it waiting.

listing_test.py GPURUN MEMBER
"""
import array
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import unittest

from own_folder import OwnFolderTest

SECONDS = 30  # nothing here takes longer, even on a busy machine
NOT_LONG = 10  # for gpurun jobs, which gives every job 3 s


class Listing(OwnFolderTest):
    seconds = SECONDS
    variables = {"GPURUN_ERRORS": "return", "GPURUN_EMULATED_MEMORY": "64M"}

    def start(self, command, **variables):
        process = subprocess.Popen(list(map(str, command)), env=self.environment | variables, text=True,
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.started.append(process)
        return process

    def joined(self, mode, name, size=2):
        """Ranks that have spoken to each other."""
        ranks = [self.start([MEMBER, mode, name, rank, size], GPURUN_DEVICE=f"emulated:{rank}/{size}")
                 for rank in range(size)]
        for rank in ranks:
            self.assertIn("got", rank.stdout.readline())
        return ranks

    def launched(self, *command, ranks=2):
        return self.start([GPURUN, "-n", ranks, f"--device=emulated:{ranks}", "--oversubscribe", *command])

    def ask(self, *options, status=0):
        began = time.monotonic()
        done = subprocess.run([GPURUN, "jobs", *options], env=self.environment, capture_output=True, text=True,
                              timeout=SECONDS)
        self.assertEqual(done.returncode, status, done)
        self.assertLess(time.monotonic() - began, NOT_LONG)
        return done.stdout if status == 0 else done.stderr

    def jobs(self):
        return {job["job"]: job for job in json.loads(self.ask("--json"))}

    def until_listed(self, name, condition):
        """The job, once it is so."""
        deadline = time.monotonic() + SECONDS
        while True:
            job = self.jobs().get(name)
            if job is not None and condition(job):
                return job
            self.assertLess(time.monotonic(), deadline, f"{name}: {job}")

    def only_job(self, condition=lambda job: True):
        deadline = time.monotonic() + SECONDS
        while True:
            jobs = list(self.jobs().values())
            if len(jobs) == 1 and condition(jobs[0]):
                return jobs[0]
            self.assertLess(time.monotonic(), deadline, jobs)

    # ---- what is listed

    def test_without_jobs(self):
        self.assertEqual(self.ask(), "no jobs of this user run on this machine\n")
        self.assertEqual(json.loads(self.ask("--json")), [])

    def test_a_job_that_joined_is_listed_with_what_its_ranks_wait_for(self):
        ranks = self.joined("wait", "pair")
        all_wait = lambda job: all(rank["state"] == "waits" for rank in job["ranks"])
        job = self.until_listed("pair", all_wait)
        self.assertEqual((job["size"], job["started_by"]), (2, "its ranks"))
        for number, rank in enumerate(job["ranks"]):
            self.assertEqual((rank["rank"], rank["pid"], rank["node"]), (number, ranks[number].pid, 0))
            self.assertEqual(rank["device"], f"emulated device {number}")
            self.assertIn("member wait pair", rank["program"])
            self.assertEqual(rank["waits"][0]["call"], "gpurun_recv")
            self.assertEqual((rank["waits"][0]["peer"], rank["waits"][0]["tag"]), (str(1 - number), "1"))
        table = self.ask()
        self.assertRegex(table, r"job pair: 2 ranks, started by its ranks, watched over by process \d+\n")
        self.assertRegex(table, rf"\n +0 .* {ranks[0].pid} +0 +emulated device 0 +waits +gpurun_recv +\d+\.\d s +recv +1 +1 .*a "
                                r"matching message\n")

    def test_a_job_that_gpurun_started_is_listed(self):
        job_process = self.launched(MEMBER, "wait")
        job = self.only_job(lambda job: all(rank["state"] == "waits" for rank in job["ranks"]))
        self.assertEqual((job["size"], job["started_by"], job["pid"]), (2, "gpurun", job_process.pid))
        for rank in job["ranks"]:
            self.assertEqual(rank["program"], f"{MEMBER} wait")
            self.assertTrue(os.path.exists(f"/proc/{rank['pid']}"))
        self.assertTrue(re.fullmatch("[0-9a-f]{16}", job["job"]))

    def test_programs_that_are_not_of_gpurun_and_several_jobs(self):
        self.launched("sleep", 100)
        self.joined("wait", "other", 3)
        self.until(lambda: len(self.jobs()) == 2, "two jobs")
        states = {len(job["ranks"]): [rank["state"] for rank in job["ranks"]] for job in self.jobs().values()}
        self.assertEqual(states[2], ["before gpurun_init"] * 2)
        self.assertEqual(self.ask().count("job "), 2)

    def test_a_job_whose_ranks_gather(self):
        self.start([MEMBER, "wait", "half", 1, 2])
        job = self.until_listed("half", lambda job: job["size"] == 2)
        self.assertEqual([rank["state"] for rank in job["ranks"]], ["has not joined", "waits for others to join"])

    def test_loans_have_bytes_holders_and_age(self):
        self.joined("lend", "lender")
        is_borrowed = lambda job: any(loan["borrowed"] for loan in job["ranks"][0]["loans"])
        loan = self.until_listed("lender", is_borrowed)["ranks"][0]["loans"][0]
        self.assertEqual((loan["bytes"], loan["to"], loan["tag"]), ("4096", "1", "9"))
        self.assertGreaterEqual(loan["seconds"], 0)
        self.assertRegex(self.ask(), r"loans:\n.*lender +bytes +to +tag +lent for +state\n +0 +4096 +1 +9 +\d+\.\d s +borrowed")

    def test_a_loan_is_borrowed_although_its_lender_makes_no_call(self):
        self.joined("away", "away")
        is_borrowed = lambda job: any(loan["borrowed"] for loan in job["ranks"][0]["loans"])
        self.until_listed("away", is_borrowed)

    def test_watch_prints_again_until_it_is_interrupted(self):
        self.joined("wait", "seen")
        watching = self.start([GPURUN, "jobs", "--watch", "--json"])
        for _ in range(2):
            self.assertEqual([job["job"] for job in json.loads(watching.stdout.readline())], ["seen"])
        watching.send_signal(signal.SIGINT)
        self.assertEqual(watching.wait(SECONDS), -signal.SIGINT)

    def test_a_job_that_waits_and_is_listed_goes_on(self):
        ranks = self.joined("wait", "asked")
        for _ in range(20):
            self.jobs()
        ranks[0].kill()
        self.assertEqual(ranks[1].wait(SECONDS), 0)

    # ---- what does not answer

    def test_a_stopped_rank_is_said_to_be(self):
        ranks = self.joined("wait", "stopped")
        ranks[1].send_signal(signal.SIGSTOP)
        job = self.until_listed("stopped", lambda job: job["ranks"][1]["state"] == "stopped")
        self.assertEqual(job["ranks"][0]["state"], "waits")

    def test_a_stopped_supervisor_is_said_to_be(self):
        self.joined("wait", "asleep")
        pid = self.until_listed("asleep", lambda job: True)["pid"]
        os.kill(pid, signal.SIGSTOP)
        self.addCleanup(os.kill, pid, signal.SIGCONT)
        other = self.joined("wait", "awake")
        self.assertIn(f"stopped (kill -CONT {pid} ", self.jobs()["asleep"]["problem"])
        self.assertIn("ranks", self.jobs()["awake"])
        self.assertRegex(self.ask(), r"job asleep: it does not answer: the gpurun that watches over it is stopped")
        other[0].kill()
        os.kill(pid, signal.SIGCONT)

    def test_a_stopped_gpurun_is_said_to_be(self):
        job = self.launched("sleep", 100)
        name = self.only_job()["job"]
        job.send_signal(signal.SIGSTOP)
        self.assertIn(f"stopped (kill -CONT {job.pid} ", self.jobs()[name]["problem"])
        job.send_signal(signal.SIGCONT)
        self.until_listed(name, lambda job: "ranks" in job)

    def test_what_a_killed_gpurun_leaves_goes(self):
        dead = self.listener("dead")
        dead.close()
        self.assertRegex(self.ask(), "job dead: nobody watches over it any more")
        self.assertEqual(self.ask(), "no jobs of this user run on this machine\n")

    def test_a_killed_gpurun_is_not_listed(self):
        job = self.launched("sleep", 100)
        self.only_job()
        job.kill()
        self.until(lambda: not os.listdir(self.folder), "the socket is left")

    def listener(self, name):
        self.place.mkdir(mode=0o700, exist_ok=True)
        listening = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        listening.bind(str(self.place / name))
        listening.listen()
        self.addCleanup(shutil.rmtree, self.place, ignore_errors=True)
        self.addCleanup(listening.close)
        return listening

    def answered_with(self, name, message, *fds):
        """What gpurun jobs says of somebody who answers so."""
        listening = self.listener(name)
        asking = self.start([GPURUN, "jobs"])
        caller, _ = listening.accept()
        caller.recv(4096)
        if message is not None:
            caller.sendmsg([message], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else [])
        caller.close()
        listening.close()
        os.unlink(self.place / name)
        self.place.rmdir()
        out, _ = asking.communicate(timeout=NOT_LONG)
        return out

    def test_nonsense_is_not_believed(self):
        listing = b"gurn" + (16).to_bytes(4, "little")
        read_end, write_end = os.pipe()
        self.addCleanup(os.close, read_end)
        self.addCleanup(os.close, write_end)
        text = os.memfd_create("text", os.MFD_ALLOW_SEALING)
        self.addCleanup(os.close, text)
        self.assertIn("job a: it has just ended", self.answered_with("a", None))
        self.assertIn("job b: what answers there is not gpurun", self.answered_with("b", b"x" * 100))
        self.assertIn("job c: it answers something else", self.answered_with("c", listing))
        self.assertIn("job d: what was sent is no text", self.answered_with("d", listing, read_end))
        self.assertIn("job e: what was sent is no text", self.answered_with("e", listing, text))
        os.write(text, b'{"job": 7')
        import fcntl
        fcntl.fcntl(text, 1033, 2 | 4 | 8)  # F_ADD_SEALS: shrink, grow, write
        self.assertIn("job f: what it said of itself cannot be read", self.answered_with("f", listing, text))

    def test_who_says_nothing_costs_three_seconds(self):
        self.listener("mute")
        self.assertRegex(self.ask(), rf"job mute: it does not answer within 3 s: process {os.getpid()}, which")
        os.unlink(self.place / "mute")
        self.place.rmdir()

    def test_who_says_nothing_does_not_keep_a_job(self):
        ranks = self.joined("wait", "kept")
        silent = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.addCleanup(silent.close)
        silent.connect(str(self.place / "kept"))
        ranks[0].kill()
        self.assertEqual(ranks[1].wait(SECONDS), 0)
        self.until(lambda: not (self.place / "kept").exists(), "the job's supervisor is left")

    def test_what_is_no_socket_is_named(self):
        self.place.mkdir(mode=0o700)
        (self.place / "file").touch()
        self.assertRegex(self.ask(), "job file: .*/gpurun/file is not a socket: remove it")
        shutil.rmtree(self.place)

    def test_a_folder_that_others_can_enter(self):
        self.place.mkdir(mode=0o755)
        self.assertRegex(self.ask(status=1), "nobody else can enter")
        self.place.rmdir()

    # ---- the command line

    def test_wrong_words(self):
        self.assertRegex(self.ask("all", status=2), "takes --json and --watch, not 'all': to run a program called jobs")
        self.assertIn("--wahtch", self.ask("--wahtch", status=2))
        self.assertIn("Usage: gpurun jobs", self.ask("--help"))

    def test_no_process_joins_a_job_that_gpurun_started(self):
        self.launched("sleep", 100)
        name = self.only_job()["job"]
        joining = self.start([MEMBER, "init", name, 0, 1])
        out, _ = joining.communicate(timeout=SECONDS)
        self.assertIn("gpurun has started this job with all its ranks", out)


if __name__ == "__main__":
    GPURUN, MEMBER = map(os.path.abspath, sys.argv[1:3])
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
