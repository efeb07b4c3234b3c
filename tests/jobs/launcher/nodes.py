"""Jobs on several nodes: network namespaces are the hosts, and a script in place of ssh enters them."""
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
import unittest

from launched import EMULATED, GPURUN, SOON_S, WIRE_RANK, LaunchedTest, main, marked, on_rank, state_of, wait_until
from namespaces import HOSTS, INSIDE, Hosts, reenter, run

# None without libfabric, and under sanitizers.
JOB_TESTS, HANGING = ([os.path.abspath(path) for path in sys.argv[3:5]] + ["", ""])[:2]
HOSTS_HERE = None


def setUpModule():
    global HOSTS_HERE
    HOSTS_HERE = Hosts()


def tearDownModule():
    HOSTS_HERE.close()


class NodesTest(LaunchedTest):
    def start(self, *arguments, agent=None, hosts="h1:2,h2:2", device=EMULATED, **options):
        options.setdefault("stdin", subprocess.DEVNULL)
        options.setdefault("stdout", subprocess.PIPE)
        options.setdefault("stderr", subprocess.PIPE)
        environment = {**self.environment(), **options.pop("extra_env", {})}
        process = subprocess.Popen([*HOSTS_HERE.on("h1"), GPURUN, "--hosts", hosts, "--agent",
                                    agent or HOSTS_HERE.agent, device, *arguments], env=environment, **options)
        self.addCleanup(self.end, process)
        return process

    def lines(self, *arguments, **options):
        """What ranks printed, sorted. REQUIRES: the job ends well and says nothing."""
        status, out, error = self.run_gpurun(*arguments, **options)
        self.assertEqual((status, error), (0, ""))
        return sorted(out.decode().splitlines())

    def daemons(self):
        def is_daemon(pid):
            try:
                with open(f"/proc/{pid}/cmdline", "rb") as file:
                    return file.read().split(b"\0")[1:2] == [b"--node-daemon"]
            except OSError:
                return False

        return [pid for pid in marked(self.mark) if is_daemon(pid)]

    @staticmethod
    def network_of(pid):
        return os.readlink(f"/proc/{pid}/ns/net")

    def far_daemon(self):
        """The one on h2, and not its guard."""
        return min(pid for pid in self.daemons() if self.network_of(pid) == self.network_of(HOSTS_HERE.holders[1].pid))

    def check_gone_soon(self, since):
        self.assertTrue(wait_until(lambda: not marked(self.mark), 5 - (time.monotonic() - since)), marked(self.mark))

    def start_sleepers(self, *options, script="echo $$; exec sleep 100"):
        """A job of four ranks that sleep, and their pids."""
        process = self.start(*options, "sh", "-c", script)
        lines = [process.stdout.readline() for _ in range(4)]
        if b"" in lines:
            self.fail(f"the job has ended: {process.communicate(timeout=SOON_S)}")
        return process, [int(line) for line in lines]


class Numbering(NodesTest):
    def test_ranks_fill_the_hosts_in_their_order(self):
        words = "$(hostname) $GPURUN_RANK/$GPURUN_SIZE $GPURUN_LOCAL_RANK/$GPURUN_LOCAL_SIZE $LOCAL_RANK $MASTER_ADDR"
        expected = ["h1 0/4 0/2 0 10.77.0.1", "h1 1/4 1/2 1 10.77.0.1", "h2 2/4 0/2 0 10.77.0.1",
                    "h2 3/4 1/2 1 10.77.0.1"]
        self.assertEqual(self.lines("sh", "-c", f"echo {words}"), expected)
        self.assertEqual(self.lines("-n", "3", "sh", "-c", f"echo {words.split()[0]}"), ["h1", "h1", "h2"])

    def test_the_master_is_where_rank_0_is(self):
        self.assertEqual(self.lines("sh", "-c", "echo $(hostname) $MASTER_ADDR", hosts="h2:1,h1:1"),
                         ["h1 10.77.0.2", "h2 10.77.0.2"])

    def test_a_host_that_gets_no_rank_does_not_matter(self):
        self.assertEqual(self.lines("-n", "2", "hostname"), ["h1", "h1"])

    def test_more_ranks_than_the_hosts_take_are_refused(self):
        status, _, error = self.run_gpurun("-n", "5", "true")
        self.assertEqual(status, 2)
        self.check_own_line(error, "5 ranks, but the hosts take 4", "--oversubscribe")

    def test_several_programs_are_numbered_through(self):
        self.assertEqual(self.lines("-n", "3", "--env", "P=a", "sh", "-c", "echo $P$GPURUN_RANK", ":", "-n", "1", "--env",
                                    "P=b", "sh", "-c", "echo $P$GPURUN_RANK"), ["a0", "a1", "a2", "b3"])

    def test_a_file_names_hosts(self):
        path = f"{self.temporary_files}/hosts"
        with open(path, "w", encoding="ascii") as file:
            file.write("# two\nh1 slots=1\nh2:2\n")
        process = subprocess.run([*HOSTS_HERE.on("h1"), GPURUN, "--hostfile", path, "--agent", HOSTS_HERE.agent, EMULATED,
                                  "hostname"], env=self.environment(), capture_output=True, check=False, timeout=60)
        os.unlink(path)
        self.assertEqual((process.returncode, sorted(process.stdout.split())), (0, [b"h1", b"h2", b"h2"]))

    def test_ranks_have_the_environment_and_the_folder_of_gpurun(self):
        lines = self.lines("sh", "-c", "echo $OF_MINE $(pwd)", extra_env={"OF_MINE": "x y"}, cwd="/usr/lib")
        self.assertEqual(lines, ["x y /usr/lib"] * 4)

    def test_arguments_and_variables_arrive_byte_for_byte(self):
        status, out, _ = self.run_gpurun("sh", "-c", 'printf "%s %s\\n" "$OF_MINE" "$1"', "sh", b"\xff'\"\n$",
                                         extra_env={"OF_MINE": b"\xfe\xc3"}, hosts="h2:1")
        self.assertEqual((status, out), (0, b"\xfe\xc3 \xff'\"\n$\n"))


class Streams(NodesTest):
    def test_lines_are_tagged_and_filtered_as_on_one_node(self):
        self.assertEqual(self.lines("--tag-output", "--filter", "1,2", "echo", "x"), ["[1] x", "[2] x"])

    def test_lines_are_tagged_with_the_host_where_asked(self):
        self.assertEqual(self.lines("--tag-output=host", "echo", "x"), ["[0 h1] x", "[1 h1] x", "[2 h2] x", "[3 h2] x"])

    def test_megabytes_arrive_whole(self):
        status, out, error = self.run_gpurun("sh", "-c", "seq 300000")
        self.assertEqual((status, error), (0, ""))
        self.assertEqual(sorted(out.split(), key=int), [b"%d" % i for i in range(1, 300001) for _ in range(4)])

    def test_each_rank_has_a_file_where_the_head_is(self):
        folder = f"{self.temporary_files}/out"
        self.assertEqual(self.lines("--output-dir", folder, "--filter=none", "sh", "-c", "echo $GPURUN_RANK"), [])
        for rank in range(4):
            with open(f"{folder}/rank-{rank}.out", encoding="ascii") as file:
                self.assertEqual(file.read(), f"{rank}\n")
        self.assertEqual(len(os.listdir(folder)), 8)
        shutil.rmtree(folder)

    def test_input_goes_to_rank_0_or_to_all(self):
        data = b"".join(b"%d\n" % i for i in range(100000))
        self.assertEqual(self.lines("sh", "-c", "wc -c", input_bytes=data), ["0"] * 3 + [str(len(data))])
        self.assertEqual(self.lines("--stdin=3", "sh", "-c", "echo $GPURUN_RANK $(wc -c)", input_bytes=data),
                         ["0 0", "1 0", "2 0", f"3 {len(data)}"])
        self.assertEqual(self.lines("--stdin=all", "sh", "-c", "wc -c", input_bytes=data), [str(len(data))] * 4)

    def test_a_reader_that_takes_its_time_still_gets_what_was_printed(self):
        process = self.start("--grace=0.1", "sh", "-c", "[ $GPURUN_RANK = 3 ] && { sleep 1; exit 7; }; exec yes")
        time.sleep(4.5)  # longer than the head waits for a node that does not answer
        out, error = process.communicate(timeout=20)
        self.assertEqual(process.returncode, 7)
        self.check_own_line(error.decode(), "rank 3 ")
        self.assertGreater(len(out), 3 * 64 * 1024)

    def test_a_timeout_ends_a_job_whose_output_nobody_reads(self):
        process = self.start("--timeout=1", "--grace=0.2", "head", "-c", "2000000", "/dev/zero")
        self.assertEqual(process.wait(timeout=20), 124)

    def test_a_reader_that_goes_away_ends_the_job(self):
        process = self.start("sh", "-c", "while :; do echo y; done")
        process.stdout.readline()
        process.stdout.close()
        self.assertEqual(process.wait(timeout=20), 128 + signal.SIGPIPE)

    def test_few_descriptors_suffice(self):
        process = self.start("echo", "x", preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64)))
        self.assertEqual(process.communicate(timeout=60), (b"x\n" * 4, b""))

    def test_too_few_descriptors_are_said_with_the_host_and_the_limit(self):
        process = self.start("echo", "x", hosts="h1:30,h2:30",
                             preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64)))
        out, error = process.communicate(timeout=60)
        self.assertEqual((process.returncode, out), (1, b""))
        self.assertRegex(error.decode(), r"Too many open files on h[12], where a process may have 64: raise that \(ulimit -n\)")


class Ends(NodesTest):
    def test_the_first_failure_gives_the_status_and_a_line(self):
        status, _, error = self.run_gpurun("sh", "-c", "[ $GPURUN_RANK = 3 ] && { echo why >&2; exit 42; }; sleep 100")
        self.assertEqual(status, 42)
        self.assertIn("rank 3 (pid ", error)
        self.assertIn("emulated device 1 on h2) exited with status 42; the other ranks were ended; the last line of its "
                      "stderr: why", error)

    def test_keep_going_leaves_the_others(self):
        status, out, error = self.run_gpurun("--keep-going", "sh", "-c",
                                             "[ $GPURUN_RANK = 3 ] && exit 5; sleep 0.5; echo on")
        self.assertEqual((status, out), (5, b"on\n" * 3))
        self.check_own_line(error, "the other ranks go on")

    def test_a_timeout_ends_all(self):
        process, _ = self.start_sleepers("--timeout=4")
        self.assertEqual(process.wait(timeout=20), 124)

    def test_a_signal_ends_all(self):
        process, _ = self.start_sleepers()
        process.send_signal(signal.SIGINT)
        before = time.monotonic()
        _, error = process.communicate(timeout=20)
        self.assertEqual(process.returncode, 130)
        self.check_own_line(error.decode(), "signal 2")
        self.check_gone_soon(before)

    def test_signals_reach_the_ranks_of_all_nodes(self):
        process, _ = self.start_sleepers(script="trap 'echo usr1; exit 0' USR1; echo $$; while :; do sleep 0.05; done")
        process.send_signal(signal.SIGUSR1)
        self.assertEqual(process.communicate(timeout=20), (b"usr1\n" * 4, b""))

    def test_a_suspended_job_stops_on_all_nodes(self):
        process, pids = self.start_sleepers()
        process.send_signal(signal.SIGTSTP)
        if wait_until(lambda: state_of(process.pid) == "T", 2):  # else no shell could make it go on
            self.assertTrue(wait_until(lambda: all(state_of(pid) == "T" for pid in pids)))
            process.send_signal(signal.SIGCONT)
        self.assertTrue(wait_until(lambda: all(state_of(pid) == "S" for pid in pids)))
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(timeout=20), 143)

    def test_many_ranks_start_and_end(self):
        lines = self.lines("sh", "-c", "echo $GPURUN_RANK", hosts="h1:40,h2:40")
        self.assertEqual(sorted(map(int, lines)), list(range(80)))

    def test_a_rank_that_ignores_the_end_is_killed(self):
        process, _ = self.start_sleepers("--grace=0.5", script="trap '' TERM; echo $$; while :; do sleep 1; done")
        process.send_signal(signal.SIGTERM)
        before = time.monotonic()
        self.assertEqual(process.wait(timeout=20), 143)
        self.check_gone_soon(before)

    def test_a_rank_that_is_killed_ends_the_job(self):
        process, pids = self.start_sleepers()
        os.kill(pids[-1], signal.SIGKILL)
        before = time.monotonic()
        self.assertEqual(process.wait(timeout=20), 137)
        self.check_gone_soon(before)

    def test_a_daemon_that_is_killed_ends_the_job(self):
        for index in range(2):
            process, _ = self.start_sleepers()
            os.kill(sorted(self.daemons())[index], signal.SIGKILL)
            before = time.monotonic()
            _, error = process.communicate(timeout=20)
            self.assertEqual(process.returncode, 1)
            self.check_own_line(error.decode(), "lost h", "the other ranks were ended")
            self.check_gone_soon(before)

    def test_a_host_that_is_lost_when_its_ranks_have_ended_does_not_end_those_that_keep_going(self):
        # More than fits between its daemon and who reads; its own pipe takes all of it.
        prints = "import fcntl, os; fcntl.fcntl(1, fcntl.F_SETPIPE_SZ, 1 << 20); os.write(1, b'y\\n' * 400000)"
        process = self.start("--keep-going", "--pty=off",
                             *on_rank(1, f'{sys.executable} -c "{prints}"; echo up >&2', "read line; echo on >&2"),
                             hosts="h1:1,h2:1", stdin=subprocess.PIPE)
        self.assertEqual(process.stderr.readline(), b"up\n")
        time.sleep(0.5)  # until the head knows that it has ended
        os.kill(self.far_daemon(), signal.SIGKILL)
        self.check_own_line(process.stderr.readline().decode(), "lost h2", "the other ranks go on")
        _, error = process.communicate(b"go\n", timeout=20)
        self.assertEqual((process.returncode, error), (1, b"on\n"))

    def test_nothing_outlives_a_head_that_is_killed(self):
        process, _ = self.start_sleepers(script="trap '' TERM; echo $$; while :; do sleep 1; done")
        process.kill()
        self.check_gone_soon(time.monotonic())

    def test_a_link_that_is_down_loses_its_host_and_ends_the_ranks_there(self):
        process, pids = self.start_sleepers()
        run("ip", "link", "set", "v2", "down")
        try:
            _, error = process.communicate(timeout=5)
            # The daemon may notice first, and its agent, which is not cut off, brings that.
            said = [line for line in error.decode().splitlines(True) if "h2: lost the gpurun" not in line]
            self.check_own_line("".join(said), "lost h2")
            self.assertEqual(process.returncode, 1)
            self.assertTrue(wait_until(lambda: not marked(self.mark), 5), pids)
        finally:
            run("ip", "link", "set", "v2", "up")
            self.assertTrue(wait_until(self.h2_reaches_h1))

    @staticmethod
    def h2_reaches_h1():
        call = "import socket\ntry: socket.create_connection(('10.77.0.1', 9), 1)\nexcept ConnectionRefusedError: pass"
        return subprocess.run([*HOSTS_HERE.on("h2"), sys.executable, "-c", call], capture_output=True,
                              check=False).returncode == 0

    def test_an_agent_that_is_killed_once_its_host_has_called_does_not_matter(self):
        agent = HOSTS_HERE.script("parent", 'echo pid $$; nsenter -t "$(cat $here/$1)" --net --uts sh -c "$2"')
        process = self.start("--stdin=all", "sh", "-c", "echo up; read line; echo on", agent=agent,
                             stdin=subprocess.PIPE)
        for _ in range(4):
            self.assertEqual(process.stdout.readline(), b"up\n")
        os.kill(int(process.stderr.readline().split()[-1]), signal.SIGKILL)
        out, error = process.communicate(b"go\n", timeout=20)
        self.assertEqual((process.returncode, out, error), (0, b"on\n" * 4, b""))


class Joining(NodesTest):
    """Ranks that speak the wire, one on each host unless a test says more."""

    def run_ranks(self, *words, hosts="h1:1,h2:1"):
        return self.run_gpurun(*words, hosts=hosts)

    def test_ranks_of_all_nodes_go_together(self):
        self.assertEqual(self.run_ranks(WIRE_RANK, "finalize", hosts="h1:2,h2:2"), (0, b"", ""))

    def test_a_death_is_told_to_the_other_node(self):
        status, out, error = self.run_ranks("--keep-going", WIRE_RANK, "await-rank-1", "1=crash")
        self.assertEqual((status, out), (137, b"told of a death\n"))
        self.check_own_line(error, "rank 1 (pid ", "on h2) was killed by signal 9", "the other ranks go on")

    def test_a_node_that_is_lost_is_told_to_the_other_one(self):
        process = self.start("--keep-going", WIRE_RANK, "await-rank-1", "1=up-and-stay", hosts="h1:1,h2:1")
        self.assertEqual(process.stdout.readline(), b"up\n")
        os.kill(self.far_daemon(), signal.SIGKILL)
        before = time.monotonic()
        out, error = process.communicate(timeout=20)
        self.assertEqual((process.returncode, out), (1, b"told of a death\n"))
        self.assertLess(time.monotonic() - before, 4)
        self.check_own_line(error.decode(), "lost h2", "the other ranks go on")

    def test_an_abort_ends_both_nodes(self):
        status, _, error = self.run_ranks(WIRE_RANK, "stay", "1=abort-5")
        self.assertEqual(status, 5)
        self.check_own_line(error, "rank 1 ", "on h2) called gpurun_abort(5); the other ranks were ended")

    def test_a_rank_that_never_comes_is_blamed(self):
        for absent in ("absent", "absent-later"):
            status, _, error = self.run_ranks(WIRE_RANK, "hello-and-sleep", f"1={absent}")
            self.assertEqual(status, 1)
            self.check_own_line(error, "rank 1 ", "exited without gpurun_init(), in which other ranks wait for it")

    def test_a_rank_that_dies_before_all_have_joined_lets_the_others_go(self):
        status, out, error = self.run_ranks("--keep-going", WIRE_RANK, "finalize", "1=hello-and-exit")
        self.assertEqual(status, 1)
        # What the death finds first on the other node: a rank that waits for all, or one that has not yet said hello.
        self.assertRegex(out, rb"\A(not started, status 14|refused with status 14: rank 1 exited .*)\n\Z")
        self.assertIn("rank 1 ", error)

    def test_versions_that_differ_are_said_by_every_rank(self):
        status, out, error = self.run_ranks(WIRE_RANK, "finalize", "1=other-version")
        self.assertEqual(status, 1)
        self.assertIn("on h2) cannot join: its library is gpurun", error)
        self.assertEqual(out.count(b"status"), 2, out)

    def test_what_is_no_message_ends_the_job(self):
        for words in ("garbage", "truncated", "oversized"):
            status, _, error = self.run_ranks(WIRE_RANK, "stay", f"1={words}")
            self.assertEqual(status, 1, words)
            self.check_own_line(error, "rank 1 ", "on h2) sent what gpurun does not understand")


@unittest.skipUnless(JOB_TESTS, "there is no libfabric in this build, or a sanitizer, which does not see what it does")
class Messages(NodesTest):
    def test_ranks_of_both_nodes_exchange_messages(self):
        for themes in ("sendrecv", "matching", "bcast"):
            status, out, error = self.run_gpurun(JOB_TESTS, f"--test-suite={themes}", extra_env={"GPURUN_REPORT": "paths"})
            self.assertEqual(status, 0, out.decode() + error)
            self.assertIn("reaches 2 by: fabric (", error)

    def test_a_provider_that_is_not_there_is_named(self):
        status, _, error = self.run_gpurun(JOB_TESTS, "--test-suite=sendrecv", hosts="h1:1,h2:1",
                                           extra_env={"GPURUN_FABRIC": "nothing"})
        self.assertNotEqual(status, 0)
        self.assertIn("libfabric has no provider 'nothing'", error)
        status, _, error = self.run_gpurun("--fabric=nothing", JOB_TESTS, "--test-suite=sendrecv", hosts="h1:1,h2:1",
                                           extra_env={"GPURUN_FABRIC": "net"})
        self.assertNotEqual(status, 0)
        self.assertIn("libfabric has no provider 'nothing'", error)


@unittest.skipUnless(HANGING, "there is no libfabric in this build, or a sanitizer")
class Hangs(NodesTest):
    CYCLE = ("deadlock: rank 0 waits for 1 (gpurun_recv, tag 7), rank 1 waits for 2 (gpurun_recv, tag 7), rank 2 waits for "
             "0 (gpurun_recv, tag 7)")

    def start_hanging(self, behaviour, *options, hosts="h1:1,h2:2"):
        """Once every rank has said that it is about to hang."""
        process = self.start(*options, HANGING, behaviour, hosts=hosts)
        for _ in range(3):
            self.assertEqual(process.stdout.readline(), b"up\n")
        return process

    def read_until(self, process, *words):
        """What is said on standard error, up to the line that has one of these."""
        text = ""
        for line in process.stderr:
            text += line.decode()
            if any(word in line.decode() for word in words):
                return text
        self.fail(f"nothing says {words}:\n{text}")

    def test_ranks_of_several_nodes_that_wait_for_each_other_are_a_cycle(self):
        process = self.start_hanging("cycle", "--hang-timeout=0.5")
        table = self.read_until(process, "deadlock: ")
        self.assertIn("what each rank waits for (--hang-timeout=0.5):\n", table)
        self.assertIn(self.CYCLE, table)
        for rank in range(3):
            self.assertRegex(table, rf"\ngpurun: +{rank}  gpurun_recv +[01]\.\d s +recv +{(rank + 1) % 3} +7 +64 +a matching")
        time.sleep(2)
        process.send_signal(signal.SIGQUIT)
        again = self.read_until(process, "deadlock: ")
        self.assertEqual(again.count("what each rank waits for"), 1, again)  # --hang-timeout tells of a hang once
        self.assertIn("(SIGQUIT)", again)
        process.terminate()
        self.assertEqual(process.wait(SOON_S), 128 + signal.SIGTERM)

    def test_the_time_of_a_job_is_over_after_a_table(self):
        process = self.start_hanging("cycle", "--timeout=3")
        _, error = process.communicate(timeout=SOON_S)
        error = error.decode()
        self.assertEqual(process.returncode, 124)
        self.assertIn("what each rank waits for (--timeout=3)", error)
        self.assertIn(self.CYCLE, error)
        self.assertRegex(error, r"the time of --timeout=3 is over; the job was ended\n")

    def test_a_rank_of_another_node_that_computes_is_no_deadlock(self):
        process = self.start_hanging("compute", "--hang-timeout=0.5", hosts="h2:1,h1:2")
        table = self.read_until(process, "ranks 1-2 wait for rank 0, which is not in a gpurun call")
        self.assertNotIn("deadlock", table)
        process.terminate()
        self.assertEqual(process.wait(SOON_S), 128 + signal.SIGTERM)

    def test_a_node_that_does_not_answer_is_said_to_be_silent(self):
        process = self.start_hanging("cycle")
        far = self.far_daemon()
        os.kill(far, signal.SIGSTOP)
        process.send_signal(signal.SIGQUIT)
        table = self.read_until(process, "  2  ")
        os.kill(far, signal.SIGCONT)
        for rank in (1, 2):
            self.assertRegex(table, rf"\ngpurun: +{rank}  .* does not answer; neither does gpurun on h2\n")
        process.terminate()
        self.assertEqual(process.wait(SOON_S), 128 + signal.SIGTERM)


class NoHangs(NodesTest):
    def test_programs_that_are_none_of_gpuruns_are_told_of(self):
        process, _ = self.start_sleepers()
        process.send_signal(signal.SIGQUIT)
        lines = [process.stderr.readline().decode() for _ in range(6)]
        self.assertIn("(SIGQUIT):\n", lines[0])
        for rank, line in enumerate(lines[2:]):
            self.assertRegex(line, rf"^gpurun:  +{rank}  no gpurun_init\(\) yet, or not a gpurun program; (sleeps|runs)")
        process.terminate()
        self.assertEqual(process.wait(SOON_S), 128 + signal.SIGTERM)

    def test_a_job_that_ends_while_it_is_asked_ends(self):
        for _ in range(5):
            process, _ = self.start_sleepers(script="echo $$; exec sleep 0.2")
            for _ in range(20):
                if process.poll() is None:
                    process.send_signal(signal.SIGQUIT)
                time.sleep(0.02)
            self.assertEqual(process.wait(SOON_S), 0)


class Starts(NodesTest):
    def test_a_program_that_is_missing_on_one_host_is_named(self):
        status, _, error = self.run_gpurun("/no/such")
        self.assertEqual(status, 127)
        self.assertIn("on h", error)
        self.assertIn("/no/such", error)

    def test_an_unknown_host_is_named(self):
        status, _, error = self.run_gpurun("true", hosts="h1,h9")
        self.assertEqual(status, 1)
        self.assertIn("gpurun: h9: no host h9\n", error)
        self.assertIn("h9 ended with status 255", error)

    def test_what_an_agent_prints_is_passed_on(self):
        noisy = HOSTS_HERE.script("noisy", 'echo welcome; exec nsenter -t "$(cat $here/$1)" --net --uts sh -c "$2"')
        status, out, error = self.run_gpurun("echo", "x", agent=noisy)
        self.assertEqual((status, out, error), (0, b"x\n" * 4, "gpurun: h2: welcome\n"))

    def test_an_agent_that_is_not_there_is_named(self):
        status, _, error = self.run_gpurun("true", agent="/no/agent")
        self.assertEqual(status, 1)
        self.check_own_line(error, "h2: the agent cannot be started", "/no/agent")

    def test_a_start_that_hangs_can_be_ended(self):
        for options, status in (((), 130), (("--timeout=1",), 124)):
            process = self.start(*options, "true", agent=HOSTS_HERE.script("slow", "echo waits; exec sleep 100"))
            self.assertEqual(process.stderr.readline(), b"gpurun: h2: waits\n")
            if not options:
                process.send_signal(signal.SIGINT)
            self.assertEqual(process.wait(timeout=20), status)
            self.check_gone_soon(time.monotonic())

    def test_a_host_that_is_named_twice_is_refused(self):
        status, _, error = self.run_gpurun("true", hosts="h1,localhost")
        self.assertEqual(status, 2)
        self.check_own_line(error, "h1 and localhost are both this machine")

    def test_another_version_is_refused(self):
        other = HOSTS_HERE.script("other", "exec python3 " + self.impostor(
            "hello = struct.pack('<5I', 0x6e6f6465, 1, 0x090909, 1, call['node']) + bytes(call['key'])"))
        status, _, error = self.run_gpurun("true", agent=other)
        self.assertEqual(status, 1)
        self.check_own_line(error, "h2: ", "there is gpurun 9.9.9", "install the same on all hosts")

    def test_who_does_not_have_the_key_hears_nothing(self):
        other = HOSTS_HERE.script("thief", f'python3 {self.impostor("hello = bytes(52)")}; exec nsenter -t '
                                           '"$(cat $here/$1)" --net --uts sh -c "$2"')
        status, _, error = self.run_gpurun("true", agent=other)
        self.assertEqual(status, 1)  # the stranger has eaten what the daemon needs
        self.assertIn("h2: heard 0 bytes", error)

    def impostor(self, hello):
        path = f"{HOSTS_HERE.folder}/impostor"
        with open(path, "w", encoding="ascii") as file:
            file.write("import json, socket, struct, sys\ncall = json.loads(sys.stdin.readline())\n"
                       f"{hello}\ns = socket.create_connection(('10.77.0.1', call['port']))\n"
                       "s.sendall(struct.pack('<2I', 1, len(hello)) + hello)\n"
                       "print('heard', len(s.recv(100)), 'bytes', flush=True)\n")
        return path

    def test_a_stranger_on_the_port_does_no_harm(self):
        process, _ = self.start_sleepers(script="echo $$; exec sleep 3")
        listing = subprocess.run([*HOSTS_HERE.on("h1"), "ss", "-Hltn"], capture_output=True, text=True, check=False)
        ports = [line.split()[3].rsplit(":", 1)[1] for line in listing.stdout.splitlines()]
        self.assertTrue(ports, listing)
        knock = f"import socket\nfor p in {ports}:\n  for b in (b'', b'GET / HTTP/1.0' * 99, b'\\xff' * 9999):\n" \
                "    try:\n      socket.create_connection(('10.77.0.1', p)).sendall(b)\n    except OSError: pass\n"
        subprocess.run([*HOSTS_HERE.on("h2"), sys.executable, "-c", knock], check=True, timeout=SOON_S)
        _, error = process.communicate(timeout=20)
        self.assertEqual((process.returncode, error), (0, b""))

    def test_what_is_not_there_yet_is_refused(self):
        status, _, error = self.run_gpurun("--debug", "0", "true")
        self.assertEqual(status, 2)
        self.check_own_line(error, "--debug cannot be used on several nodes")


if __name__ == "__main__":
    if INSIDE not in os.environ:
        reenter()
    main()
