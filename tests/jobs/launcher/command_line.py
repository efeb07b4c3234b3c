"""What gpurun makes of its command line: exit statuses 2, 126, 127 and 0, and what it says."""
import os
import re
import resource
import subprocess
import tempfile
from pathlib import Path

from launched import EMULATED, GPURUN, LaunchedTest, main


class CommandLine(LaunchedTest):
    def check_refused(self, status, parts, *arguments):
        with self.subTest(arguments):
            got, out, error = self.run_gpurun(*arguments)
            self.assertEqual((got, out), (status, b""), error)
            self.check_own_line(error, *parts)

    def test_a_bad_command_line_is_one_line_and_status_2(self):
        self.check_refused(2, ["'0'"], "-n", "0", "true")
        self.check_refused(2, ["'-1'"], "-n", "-1", "true")
        self.check_refused(2, ["'10001'", "10000"], "-n", "10001", "true")
        self.check_refused(2, ["257 ranks", "256"], "-n", "257", "true")
        self.check_refused(2, ["'many'"], "-n", "many", "true")
        self.check_refused(2, ["--frobnicate"], "--frobnicate", "true")
        self.check_refused(2, ["'gpu'"], "--device=gpu", "true")
        self.check_refused(2, ["program"])
        self.check_refused(2, ["program"], "-n", "2")

    def test_more_ranks_than_devices_names_both_numbers_and_the_remedy(self):
        self.check_refused(2, ["4 ranks", "2 emulated devices", "--oversubscribe", "-n 2"], "-n", "4",
                           "--device=emulated:2", "true")

    def test_a_program_that_is_not_there_is_127_and_one_that_cannot_run_126(self):
        self.check_refused(127, ["no-such-program", "PATH"], "no-such-program")
        self.check_refused(127, ["/no/such/program"], "/no/such/program")
        self.check_refused(126, ["/etc/passwd", "ermission"], "/etc/passwd")
        self.check_refused(126, ["/etc", "directory"], "/etc")

    def test_a_program_that_exec_refuses_is_126_or_127(self):
        with tempfile.TemporaryDirectory() as folder:
            script = os.path.join(folder, "script")
            with open(script, "w", encoding="ascii") as file:
                file.write("#!/no/such/interpreter\n")
            os.chmod(script, 0o700)
            self.check_refused(127, [script, "interpreter"], EMULATED, script)

    def test_a_file_of_hosts_that_cannot_be_read_is_refused_with_the_reason(self):
        self.check_refused(2, ["--hostfile /: Is a directory"], "--hostfile", "/", "true")
        self.check_refused(2, ["--hostfile /no/file: No such file"], "--hostfile", "/no/file", "true")

    def test_what_cannot_be_written_is_an_error(self):
        for words in ([EMULATED, "--dry-run"], ["--topo"], ["--help"], ["--version"], ["jobs"], ["jobs", "--json"], ["jobs", "--help"]):
            with self.subTest(words), open("/dev/full", "w", encoding="ascii") as full:
                done = subprocess.run([GPURUN, *words], stdout=full, stderr=subprocess.PIPE, text=True, check=False,
                                      timeout=60)
                self.assertEqual((done.returncode, done.stderr), (1, "gpurun: standard output: No space left on device\n"))

    def test_help_and_version_go_to_stdout(self):
        status, out, error = self.run_gpurun("--help")
        self.assertEqual((status, error), (0, ""))
        self.assertTrue(out.startswith(b"Usage: gpurun"))
        status, out, error = self.run_gpurun("--version")
        self.assertEqual((status, error), (0, ""))
        self.assertRegex(out, rb"^gpurun \d+\.\d+\.\d+\nbuilt with emulated devices[A-Za-z, ]*\n$")

    def test_every_option_of_the_help_is_in_the_manual(self):
        page = (Path(__file__).resolve().parents[3] / "man/gpurun.1").read_text(encoding="utf-8")
        _, out, _ = self.run_gpurun("--help")
        for option in re.findall(r"^  (?:-\w, )?-(-[a-z-]+)", out.decode(), re.M):
            self.assertRegex(page, rf"(?m)^\.It (Fl \w.* , )?Fl {option}\b", option)

    def test_success_is_silent(self):
        self.assertEqual(self.run_gpurun("-n", "4", EMULATED, "true"), (0, b"", ""))

    def test_emulated_devices_that_nobody_asked_for_are_said_in_one_line(self):
        # No GPU is visible, on a machine that has some too.
        status, out, error = self.run_gpurun("-n", "2", "true", extra_env={"CUDA_VISIBLE_DEVICES": ""})
        self.assertEqual((status, out), (0, b""))
        self.check_own_line(error, "2 devices are emulated")
        self.assertEqual(self.run_gpurun("-n", "2", "--device=auto", "true", extra_env={"CUDA_VISIBLE_DEVICES": ""}),
                         (0, b"", ""))

    def test_the_program_keeps_its_options(self):
        self.assertEqual(self.run_gpurun(EMULATED, "echo", "-n", "--help", "-x"), (0, b"--help -x", ""))

    def test_ranks_are_told_who_they_are(self):
        script = "echo $GPURUN_RANK $GPURUN_SIZE $GPURUN_LOCAL_RANK $GPURUN_LOCAL_SIZE $GPURUN_DEVICE"
        status, out, _ = self.run_gpurun("-n", "3", "--device=emulated:2", "--oversubscribe", "sh", "-c", script)
        self.assertEqual(status, 0)
        self.assertEqual(sorted(out.decode().splitlines()),
                         ["0 3 0 3 emulated:0/2", "1 3 1 3 emulated:1/2", "2 3 2 3 emulated:0/2"])

    def test_ranks_are_told_the_name_of_their_job_after_those_of_the_jobs_around_it(self):
        show = ("-n", "1", EMULATED, "sh", "-c", "echo $GPURUN_JOB")
        around = ("-n", "1", EMULATED, GPURUN)
        for depth in range(3):
            status, out, error = self.run_gpurun(*around * depth, *show)
            self.assertEqual((status, error), (0, ""))
            self.assertRegex(out.decode(), rf"^{self.mark}(\.[0-9a-f]{{16}}){{{depth + 1}}}\n$")

    def test_ranks_inherit_nothing_of_gpuruns_but_their_socket(self):
        script = "ls -l /proc/self/fd | wc -l; test -S /proc/self/fd/$GPURUN_CONTROL_FD || echo no socket"
        status, out, _ = self.run_gpurun("-n", "4", EMULATED, "sh", "-c", script)
        alone = subprocess.run(["sh", "-c", "ls -l /proc/self/fd | wc -l"], stdout=subprocess.PIPE, check=True)
        self.assertEqual(status, 0)
        self.assertEqual(out.splitlines(), [b"%d" % (int(alone.stdout) + 1)] * 4)

    def test_ranks_start_with_the_descriptor_limit_that_gpurun_had(self):
        def lower_limit():
            resource.setrlimit(resource.RLIMIT_NOFILE, (100, 4096))
        script = "echo $(ulimit -n) $(ulimit -Hn)"
        self.assertEqual(self.run_gpurun("-n", "64", EMULATED, "sh", "-c", script, preexec_fn=lower_limit),
                         (0, b"100 4096\n" * 64, ""))

    def test_the_most_ranks_start(self):
        status, out, error = self.run_gpurun("-n", "256", EMULATED, "sh", "-c", "echo $GPURUN_RANK")
        self.assertEqual((status, error), (0, ""))
        self.assertEqual(sorted(map(int, out.split())), list(range(256)))

    def test_closed_standard_streams_harm_nobody(self):
        closed = '"$0" -n 2 --device=emulated cat <&- >&- 2>&-'
        self.assertEqual(subprocess.run(["sh", "-c", closed, GPURUN], check=False).returncode, 0)


main()
