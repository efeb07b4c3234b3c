"""A private MPS daemon for ranks that share a GPU: when there is one, who knows of it, and that it never stays behind.

The GPUs are those of fake_nvml, the daemon is fake_mps_control; the ranks are shells.
"""
import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile

from launched import EMULATED, LaunchedTest, SOON_S, main, marked, wait_until

FAKE_CONTROL = os.path.join(os.path.dirname(os.path.abspath(__file__)), "fake_mps_control.py")
FAKE_NVML = os.path.abspath(sys.argv[3])
SHARED = ("--device=cuda", "--oversubscribe", "-n", "4")
SHOW = ("sh", "-c", "echo $GPURUN_MPS $CUDA_MPS_PIPE_DIRECTORY $CUDA_MPS_LOG_DIRECTORY $CUDA_VISIBLE_DEVICES")


class Mps(LaunchedTest):
    def setUp(self):
        super().setUp()
        self.folder = tempfile.mkdtemp(prefix="gpurun-test-", dir="/tmp")  # sockets need short paths
        self.addCleanup(shutil.rmtree, self.folder)
        self.programs, self.temporary = os.path.join(self.folder, "bin"), os.path.join(self.folder, "tmp")
        os.mkdir(self.programs)
        os.mkdir(self.temporary)
        os.symlink(FAKE_NVML, os.path.join(self.folder, "libnvidia-ml.so.1"))
        self.control = os.path.join(self.programs, "nvidia-cuda-mps-control")
        with open(self.control, "w", encoding="utf-8") as file:
            file.write(f'#!/bin/sh\nexec "{sys.executable}" "{FAKE_CONTROL}" "$@"\n')
        os.chmod(self.control, 0o700)

    def start(self, *arguments, mode="", more=None, **options):
        """With two GPUs, the fake program in PATH, and no daemon of the user's."""
        environment = {
            "LD_LIBRARY_PATH": self.folder, "FAKE_GPUS": "2", "TMPDIR": self.temporary,
            "PATH": f"{self.programs}:{os.environ['PATH']}", "CUDA_MPS_PIPE_DIRECTORY": f"{self.folder}/nothing",
            "CUDA_VISIBLE_DEVICES": "0,1", "GPURUN_MPS_CONTROL": "",
            "FAKE_MPS": mode, "FAKE_MPS_RECORD": f"{self.folder}/record", **(more or {})}
        return super().start(*arguments, extra_env=environment, **options)

    def record(self):
        try:
            with open(f"{self.folder}/record", encoding="utf-8") as file:
                return file.read().splitlines()
        except FileNotFoundError:
            return []

    def check_gone(self):
        """No process, and no folder."""
        self.assertTrue(wait_until(lambda: not marked(self.mark) and not os.listdir(self.temporary)),
                        (marked(self.mark), os.listdir(self.temporary)))

    def check_ended_well(self):
        """As check_gone(), and the daemon was asked to end."""
        self.assertEqual(self.record()[-1], "command quit")
        self.assertEqual(os.listdir(self.temporary), [])
        self.assertEqual(marked(self.mark), [])

    def check_no_daemon(self, *arguments, **options):
        """The job runs without a word, without MPS, and no daemon was started for it."""
        status, out, error = self.run_gpurun(*arguments, "sh", "-c", "echo $GPURUN_MPS", **options)
        self.assertEqual((status, set(out.split()), error), (0, {b"0"}, ""))
        self.assertEqual(self.record(), [])

    def check_goes_on(self, *parts, **options):
        """The job runs without MPS, and one line says so, with its consequence, the reason and the remedy."""
        status, out, error = self.run_gpurun(*SHARED, "sh", "-c", "echo $GPURUN_MPS", **options)
        self.assertEqual((status, out), (0, b"0\n" * 4), error)
        self.check_own_line(error, "no MPS", "take turns", "150 us", "--mps=off", *parts)
        self.check_gone()

    def start_ready(self, *options, mode="", script="sleep 100 & sleep 100"):
        """Returns once every rank has printed its line, which the daemon's answer precedes."""
        process = self.start(*SHARED, *options, "sh", "-c", f"echo up; {script}", mode=mode)
        for _ in range(4):
            self.assertEqual(process.stdout.readline(), b"up\n")
        self.assertEqual(len(os.listdir(self.temporary)), 1)
        return process

    # ---- when there is one ------------------------------------------------------------------------------------

    def test_ranks_that_share_a_gpu_get_a_daemon_and_are_told_where_it_is(self):
        status, out, error = self.run_gpurun(*SHARED, *SHOW)
        self.assertEqual((status, error), (0, ""))
        lines = set(out.decode().splitlines())
        self.assertEqual(len(lines), 1, lines)
        mps, pipes, logs, visible = lines.pop().split()
        self.assertEqual((mps, visible), ("1", "GPU-a,GPU-b"))
        self.assertTrue(pipes.startswith(f"{self.temporary}/gpurun-mps-"), pipes)
        self.assertEqual(os.path.dirname(pipes), os.path.dirname(logs))
        daemon = self.record()[0].split()
        self.assertEqual(daemon[:2], ["daemon", "GPU-a,GPU-b"])
        self.assertEqual(stat.S_IMODE(int(daemon[2], 8)), 0o700)
        self.assertEqual(daemon[3], "True")
        self.check_ended_well()

    def test_its_gpus_are_the_visible_ones_in_their_order(self):
        status, out, _ = self.run_gpurun(*SHARED, *SHOW, more={"FAKE_GPUS": "4", "CUDA_VISIBLE_DEVICES": "3,1"})
        self.assertEqual(status, 0)
        self.assertEqual({line.split()[-1] for line in out.splitlines()}, {b"GPU-d,GPU-b"})
        self.assertEqual(self.record()[0].split()[1], "GPU-d,GPU-b")

    def test_ranks_that_see_their_own_gpu_only_do_so_with_mps_too(self):
        status, out, error = self.run_gpurun("--device=cuda", "--ranks-per-gpu=2", "--gpu-visible=own", "--bind-to=none",
                                             *SHOW)
        self.assertEqual((status, error), (0, ""))
        self.assertEqual(sorted(line.split()[-1] for line in out.splitlines()), [b"GPU-a"] * 2 + [b"GPU-b"] * 2)
        self.assertEqual(self.record()[0].split()[1], "GPU-a,GPU-b")
        self.check_ended_well()

    def test_gpus_that_are_chosen_are_served_in_their_order(self):
        status, out, _ = self.run_gpurun("--device=cuda", "--ranks-per-gpu=2", "--gpus=3,1", *SHOW,
                                         more={"FAKE_GPUS": "4", "CUDA_VISIBLE_DEVICES": "0,1,2,3"})
        self.assertEqual((status, {line.split()[-1] for line in out.splitlines()}), (0, {b"GPU-d,GPU-b"}))
        self.assertEqual(self.record()[0].split()[1], "GPU-d,GPU-b")

    def test_ranks_that_share_one_mig_instance_get_a_daemon_and_those_of_several_are_told_that_there_is_none(self):
        mig = {"FAKE_GPUS": "1", "FAKE_MIG": "0:2", "CUDA_VISIBLE_DEVICES": "0"}
        share = ("--device=cuda", "--ranks-per-gpu=2", "--bind-to=none")
        status, out, error = self.run_gpurun(*share, "--gpus=MIG-a2", *SHOW, more=mig)
        self.assertEqual((status, error, {line.split()[-1] for line in out.splitlines()}), (0, "", {b"MIG-a2"}))
        self.assertEqual(self.record()[0].split()[1], "MIG-a2")
        os.remove(f"{self.folder}/record")
        self.check_no_daemon("--device=cuda", more=mig)
        status, out, error = self.run_gpurun(*share, "sh", "-c", "echo $GPURUN_MPS", more=mig)
        self.assertEqual((status, out, self.record()), (0, b"0\n" * 4, []))
        self.check_own_line(error, "one instance only", "--mps=off")
        status, _, error = self.run_gpurun(*share, "--mps=on", "true", more=mig)
        self.assertEqual(status, 2)
        self.check_own_line(error, "--mps=on", "--gpus")

    def test_ranks_with_gpus_of_their_own_get_none(self):
        self.check_no_daemon("--device=cuda")
        self.check_no_daemon("--device=cuda", "-n", "2", "--mps=auto")

    def test_emulated_devices_get_none(self):
        self.check_no_daemon("--device=emulated:1", "--oversubscribe", "-n", "2")

    def test_off_starts_none(self):
        self.check_no_daemon(*SHARED, "--mps=off")

    def test_on_starts_one_for_the_ranks_gpus_also_where_none_is_shared(self):
        status, out, error = self.run_gpurun("--device=cuda", "--mps=on", "-n", "1", *SHOW)
        self.assertEqual((status, error, out.split()[0], out.split()[-1]), (0, "", b"1", b"GPU-a"))
        self.check_ended_well()

    def test_on_is_an_error_on_emulated_devices_that_says_what_to_do(self):
        status, out, error = self.run_gpurun(EMULATED, "--mps=on", "echo", "ran")
        self.assertEqual((status, out), (2, b""))
        self.check_own_line(error, "--mps=on", "emulated", "--device=cuda")

    def test_ranks_share_the_hardware_queues_that_mps_has_for_a_gpu(self):
        show = ("sh", "-c", "echo $CUDA_DEVICE_MAX_CONNECTIONS")
        for each, queues in ((1, b"32"), (3, b"32"), (16, b"7")):
            status, out, error = self.run_gpurun("--device=cuda", f"--ranks-per-gpu={each}", "--bind-to=none", *show)
            self.assertEqual((status, error, out.split()), (0, "", [queues] * 2 * each))
        status, out, error = self.run_gpurun(*SHARED, "--gpus=0", *show, more={"CUDA_DEVICE_MAX_CONNECTIONS": "32"})
        self.assertEqual((status, out.split()), (0, [b"32"] * 4))
        self.check_own_line(error, "128 hardware queues", "30 at most")

    def test_more_ranks_than_a_daemon_serves_are_an_error_before_anything_starts(self):
        many = ("--device=cuda", "--gpus=1", "--oversubscribe", "--bind-to=none", "-n", "49")
        status, out, error = self.run_gpurun(*many, "echo", "ran")
        self.assertEqual((status, out, self.record()), (2, b"", []))
        self.check_own_line(error, "49 ranks on GPU 0000:02:00.0", "at most 48", "--mps=off")
        status, out, error = self.run_gpurun(*many, "--mps=off", "echo", "ran")
        self.assertEqual((status, out, error), (0, b"ran\n" * 49, ""))
        status, out, error = self.run_gpurun(*many, "echo", "ran", more={"FAKE_COMPUTE_MAJOR": "10"})
        self.assertEqual((status, out, error), (0, b"ran\n" * 49, ""))

    # ---- a daemon of the user's -------------------------------------------------------------------------------

    def test_a_daemon_that_answers_is_used_and_left_alone(self):
        pipes = f"{self.folder}/users"
        os.mkdir(pipes)
        mine = {"CUDA_MPS_PIPE_DIRECTORY": pipes, "CUDA_MPS_LOG_DIRECTORY": pipes}
        daemon = subprocess.Popen([self.control, "-f"], env={**os.environ, **mine}, start_new_session=True)
        try:
            self.assertTrue(wait_until(lambda: os.path.exists(f"{pipes}/control")))
            status, out, error = self.run_gpurun(*SHARED, *SHOW, more=mine)
            self.assertEqual((status, error), (0, ""))
            self.assertEqual(set(out.decode().splitlines()), {f"1 {pipes} {pipes} 0,1"})
            self.assertEqual(self.record(), [])  # none was started; the user's own does not know of the record
            status, out, error = self.run_gpurun("--topo", more=mine)
            self.assertEqual((status, error), (0, ""))
            self.assertIn(f"MPS: the daemon that answers in {pipes} serves", out.decode())
            self.assertIsNone(daemon.poll())
        finally:
            subprocess.run([self.control], input=b"quit\n", env={**os.environ, **mine}, check=False)
            daemon.wait(SOON_S)

    def test_pipes_that_nobody_listens_to_do_not_count(self):
        pipes = f"{self.folder}/stale"
        os.mkdir(pipes)
        with open(f"{pipes}/control", "wb"):
            pass
        status, out, error = self.run_gpurun(*SHARED, *SHOW, more={"CUDA_MPS_PIPE_DIRECTORY": pipes})
        self.assertEqual((status, error), (0, ""))
        self.assertNotIn(pipes, out.decode())
        self.check_ended_well()

    # ---- one that does not start ------------------------------------------------------------------------------

    def test_without_the_program_the_job_goes_on_and_says_so(self):
        missing = f"{self.folder}/none"
        self.check_goes_on("GPURUN_MPS_CONTROL", missing, more={"GPURUN_MPS_CONTROL": missing})
        self.check_goes_on("ermission", more={"GPURUN_MPS_CONTROL": "/etc/passwd"})

    def test_the_program_is_found_in_path_and_what_cannot_run_there_is_named(self):
        os.chmod(self.control, 0o600)
        if shutil.which("nvidia-cuda-mps-control", path="/usr/bin:/usr/local/nvidia/bin"):
            self.skipTest("the real one is here")
        self.check_goes_on(self.control, "ermission")
        os.remove(self.control)
        self.check_goes_on("neither in PATH nor in", "install it", "GPURUN_MPS_CONTROL")

    def test_a_daemon_that_dies_at_once_is_told_with_its_last_words(self):
        self.check_goes_on("exited with status 1", "already running", mode="dies")

    def test_a_daemon_that_never_answers_is_given_up(self):
        self.check_goes_on("did not answer within 10 s", mode="mute")

    def test_a_daemon_that_listens_late_is_waited_for(self):
        status, out, error = self.run_gpurun(*SHARED, *SHOW, mode="slow")
        self.assertEqual((status, error, out[:1]), (0, "", b"1"))
        self.check_ended_well()

    def test_a_temporary_folder_with_too_long_a_path_is_an_error_that_says_so(self):
        long_path = os.path.join(self.temporary, "x" * 100)
        os.mkdir(long_path)
        status, _, error = self.run_gpurun(*SHARED, "true", more={"TMPDIR": long_path})
        self.assertEqual((status, os.listdir(long_path)), (0, []))
        self.check_own_line(error, "no MPS", "at most 107", "TMPDIR")
        status, _, error = self.run_gpurun(*SHARED, "true", more={"TMPDIR": f"{self.folder}/none"})
        self.assertEqual(status, 0)
        self.check_own_line(error, "no MPS", f"{self.folder}/none", "TMPDIR")
        os.rmdir(long_path)

    def test_with_on_it_is_an_error_before_any_rank_starts(self):
        for mode, part in (("dies", "already running"), ("mute", "did not answer")):
            with self.subTest(mode):
                status, out, error = self.run_gpurun(*SHARED, "--mps=on", "echo", "ran", mode=mode)
                self.assertEqual((status, out), (1, b""))
                self.check_own_line(error, "--mps=on", part)
                self.check_gone()

    # ---- its end ----------------------------------------------------------------------------------------------

    def test_it_ends_with_a_rank_that_fails(self):
        status, _, error = self.run_gpurun(*SHARED, "sh", "-c", "if [ $GPURUN_RANK = 1 ]; then exit 7; fi; sleep 100")
        self.assertEqual(status, 7)
        self.check_own_line(error, "rank 1 ")
        self.check_ended_well()

    def test_it_ends_with_a_program_that_cannot_be_executed(self):
        script = f"{self.folder}/script"
        with open(script, "w", encoding="ascii") as file:
            file.write("#!/no/such/interpreter\n")
        os.chmod(script, 0o700)
        status, _, error = self.run_gpurun(*SHARED, script)
        self.assertEqual(status, 127)
        self.check_own_line(error, script)
        self.check_gone()

    def test_it_ends_with_a_gpurun_that_is_asked_to_end(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            with self.subTest(number.name):
                process = self.start_ready()
                process.send_signal(number)
                process.communicate(timeout=20)
                self.assertEqual(process.returncode, 128 + number)
                self.check_ended_well()

    def test_it_ends_with_a_gpurun_that_is_killed(self):
        for mode in ("", "stuck"):
            with self.subTest(mode):
                process = self.start_ready(mode=mode)
                process.kill()
                process.communicate()
                self.check_gone()

    def test_it_ends_with_a_group_of_gpurun_that_is_killed(self):
        process = self.start(*SHARED, "sh", "-c", "echo up; sleep 100", start_new_session=True)
        for _ in range(4):
            process.stdout.readline()
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        self.check_gone()

    def test_one_that_does_not_end_when_asked_is_killed_with_its_server(self):
        status, _, error = self.run_gpurun(*SHARED, "true", mode="stuck")
        self.assertEqual((status, error), (0, ""))
        self.check_ended_well()

    def test_a_signal_while_it_starts_ends_everything(self):
        for kill in (False, True):
            with self.subTest(kill):
                process = self.start(*SHARED, "--mps=on", "echo", "ran", mode="mute")
                self.assertTrue(wait_until(lambda: "command get_server_list" in self.record()))
                process.send_signal(signal.SIGKILL if kill else signal.SIGINT)
                out, _ = process.communicate(timeout=SOON_S)
                self.assertEqual((process.returncode, out), (-9 if kill else 130, b""))
                self.check_gone()
                os.remove(f"{self.folder}/record")

    def test_one_that_dies_during_the_job_is_told(self):
        poke = f'echo get_server_list | "{self.control}"; '
        process = self.start("--device=cuda", "--mps=on", "-n", "1", "sh", "-c", poke + "read line", mode="crashes",
                             stdin=subprocess.PIPE)
        for line in process.stderr:  # what cannot find it any more says so, too
            if b"gpurun: the MPS daemon of this job was killed by signal 11" in line:
                break
        process.communicate(b"go\n", timeout=SOON_S)
        self.assertEqual(process.returncode, 0)
        self.check_gone()


main()
