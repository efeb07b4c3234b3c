"""Tags, times, files, filters, and who reads gpurun's input."""
import os
import pty
import re
import resource
import select
import subprocess
import sys
import tempfile

from launched import EMULATED, GPURUN, LaunchedTest, main, on_rank

# RANK LINE BYTES LETTERS: what is torn, lost or doubled shows. Lines are long and short, and come in pieces.
WRITER = """
import os, sys
rank, lines = int(os.environ["GPURUN_RANK"]), int(sys.argv[1])
pieces = b"".join(b"%d %d %d " % (rank, line, size) + b"x" * size + b"\\n"
                  for line in range(lines) for size in [line * 37 % 300 if line % 50 else 9000])
for at in range(0, len(pieces), 5003):
    os.write(1, pieces[at:at + 5003])
"""
TIME = rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}"


class Tags(LaunchedTest):
    def check_lines(self, out, ranks, lines):
        """Every line of WRITER is there, once, in order, whole, behind the tag of its rank."""
        seen = [0] * ranks
        for line in out.splitlines():
            tag, rank, number, size, *letters = line.decode().split(" ")
            self.assertEqual(tag, f"[{rank}]")
            self.assertEqual("".join(letters), "x" * int(size))
            self.assertEqual(int(number), seen[int(rank)])
            seen[int(rank)] += 1
        self.assertEqual(seen, [lines] * ranks)

    def test_lines_of_64_ranks_at_megabytes_a_second_are_whole_and_tagged(self):
        status, out, error = self.run_gpurun("-n", "64", "--tag-output", EMULATED, sys.executable, "-S", "-c", WRITER,
                                             "800")
        self.assertEqual((status, error), (0, ""))
        self.check_lines(out, 64, 800)  # 15 MB

    def test_bytes_are_those_of_the_rank_behind_the_tag(self):
        script = r"printf 'a\000\377b\n\nc'"
        self.assertEqual(self.run_gpurun("--tag-output", EMULATED, "sh", "-c", script),
                         (0, b"[0] a\0\xffb\n[0] \n[0] c", ""))

    def test_nobody_continues_the_unfinished_line_of_another(self):
        process = self.start("-n", "2", "--tag-output", "--stdin=1", EMULATED, *on_rank(
            0, "printf 'no end'", "read line; echo line"), stdin=subprocess.PIPE)
        self.assertEqual(process.stdout.read(len("[0] no end")), b"[0] no end")
        self.assertEqual(process.communicate(b"go\n", timeout=20), (b"\n[1] line\n", b""))
        self.assertEqual(process.returncode, 0)

    def test_what_a_rank_alone_prompts_is_tagged_at_once_and_once(self):
        process = self.start("--tag-output", EMULATED, "sh", "-c", "printf 'na'; sleep 0.3; printf 'me? '; sleep 100")
        seen = b""
        while b"? " not in seen:
            seen += os.read(process.stdout.fileno(), 100)
        self.assertEqual(seen, b"[0] name? ")
        process.terminate()
        process.communicate(timeout=20)

    def test_gpuruns_own_line_is_not_tagged_and_begins_a_line(self):
        status, out, _ = self.run_gpurun("-n", "1", "--tag-output", EMULATED, "sh", "-c", "printf half; exit 3",
                                         stderr=subprocess.STDOUT)
        self.assertEqual(status, 3)
        self.assertRegex(out, rb"^\[0\] half\ngpurun: rank 0 .*\n$")

    def test_a_timestamp_is_the_time_and_goes_with_a_tag_or_without(self):
        _, out, _ = self.run_gpurun("--timestamp", EMULATED, "sh", "-c", "date +%Y-%m-%dT%H:%M")
        self.assertRegex(out, rb"^" + TIME + rb" \d{4}-\d\d-\d\dT\d\d:\d\d\n$")
        self.assertLessEqual(abs(int(out[14:16]) - int(out[-3:-1])) % 59, 1)  # but for a minute that just ended
        _, out, error = self.run_gpurun("--timestamp", "--tag-output", EMULATED, "sh", "-c", "echo to stderr >&2")
        self.assertEqual(out, b"")
        self.assertRegex(error.encode(), rb"^" + TIME + rb" \[0\] to stderr\n$")

    def on_terminal(self, **variables):
        """What a terminal gets from two ranks that print a line each."""
        pid, terminal = pty.fork()
        if pid == 0:
            os.execve(GPURUN, [GPURUN, "-n", "2", "--tag-output", EMULATED, "sh", "-c", "echo line"],
                      {**self.environment(), "TERM": "xterm", **variables})
        out = b""
        try:
            while True:
                out += os.read(terminal, 4096)
        except OSError:  # its other end is closed
            os.close(terminal)
        self.assertEqual(os.waitpid(pid, 0)[1], 0)
        return out

    def test_tags_are_coloured_on_a_terminal_unless_it_or_the_user_wants_none(self):
        coloured = rb"\x1b\[\d+m\[%d\]\x1b\[0m line\r\n"
        out = self.on_terminal(NO_COLOR="")
        for rank in range(2):
            self.assertRegex(out, coloured % rank)
        self.assertNotIn(b"\x1b", self.on_terminal(NO_COLOR="1"))
        self.assertNotIn(b"\x1b", self.on_terminal(TERM="dumb"))
        _, out, _ = self.run_gpurun("--tag-output", EMULATED, "echo", "line", extra_env={"TERM": "xterm"})
        self.assertEqual(out, b"[0] line\n")


class Files(LaunchedTest):
    def setUp(self):
        super().setUp()
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.logs = os.path.join(self.folder.name, "a", "b")

    def read(self, name):
        with open(os.path.join(self.logs, name), "rb") as file:
            return file.read()

    def test_each_stream_of_each_rank_has_a_file_with_its_very_bytes(self):
        status, out, _ = self.run_gpurun("-n", "3", "--tag-output", "--output-dir", self.logs, EMULATED, "sh", "-c",
                                         r"printf 'out\000\377 %s\nno end' $GPURUN_RANK; echo error $GPURUN_RANK >&2")
        self.assertEqual(status, 0)
        self.assertEqual(len(os.listdir(self.logs)), 6)
        for rank in range(3):
            self.assertEqual(self.read(f"rank-{rank}.out"), b"out\0\xff %d\nno end" % rank)
            self.assertEqual(self.read(f"rank-{rank}.err"), b"error %d\n" % rank)
            self.assertIn(b"[%d] out\0\xff %d\n" % (rank, rank), out)

    def test_a_file_that_was_there_is_replaced(self):
        for word in ("longer before", "after"):
            self.run_gpurun(f"--output-dir={self.logs}", EMULATED, "echo", word)
        self.assertEqual(self.read("rank-0.out"), b"after\n")

    def test_output_of_a_rank_that_is_killed_is_in_its_file(self):
        script = "i=0; while [ $i -lt 2000 ]; do echo line $i; i=$((i+1)); done; kill -KILL $$"
        status, _, _ = self.run_gpurun("--output-dir", self.logs, "--filter=none", EMULATED, "sh", "-c", script)
        self.assertEqual(status, 137)
        self.assertEqual(len(self.read("rank-0.out").splitlines()), 2000)

    def test_a_folder_or_a_file_that_cannot_be_made_is_said_before_anything_starts(self):
        for path, reason in (("/proc/none/such", "No such file"), ("/etc/passwd/x", "Not a directory")):
            status, out, error = self.run_gpurun("--output-dir", path, EMULATED, "echo", "ran")
            self.assertEqual((status, out), (1, b""))
            self.check_own_line(error, path, reason)
        os.makedirs(os.path.join(self.logs, "rank-0.err"))
        status, out, error = self.run_gpurun("--output-dir", self.logs, EMULATED, "echo", "ran")
        self.assertEqual((status, out), (1, b""))
        self.check_own_line(error, "rank-0.err", "directory")

    def test_a_full_disk_is_said_with_the_file_and_ends_who_writes_there(self):
        os.makedirs(self.logs)
        os.symlink("/dev/full", os.path.join(self.logs, "rank-1.out"))
        status, out, error = self.run_gpurun("-n", "2", "--output-dir", self.logs, EMULATED, *on_rank(
            1, "while :; do echo line; done"))
        self.assertEqual(status, 128 + 13)
        self.assertIn(f"gpurun: writing {self.logs}/rank-1.out: No space left on device\n", error)
        self.assertNotIn("rank 0", error)
        status, out, error = self.run_gpurun("-n", "2", "--output-dir", self.logs, EMULATED, "echo", "once")
        self.assertEqual((status, out), (1, b"once\n" * 2))
        self.check_own_line(error, "rank-1.out: No space left on device")

    def test_a_file_that_may_not_grow_any_more_is_as_a_full_disk(self):
        process = self.start("-n", "2", "--stdin=1", "--output-dir", self.logs, EMULATED, *on_rank(
            1, "echo up; read line; while :; do echo line; done"), stdin=subprocess.PIPE)
        self.assertEqual(process.stdout.readline(), b"up\n")
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (100_000, 100_000))
        _, error = process.communicate(b"go\n", timeout=20)
        self.assertEqual(process.returncode, 128 + 13)
        self.assertIn(f"gpurun: writing {self.logs}/rank-1.out: File too large\n", error.decode())

    def test_a_filter_shows_only_its_ranks_and_files_have_all(self):
        script = "echo out $GPURUN_RANK; echo error $GPURUN_RANK >&2"
        status, out, error = self.run_gpurun("-n", "6", "--filter=0,3-4", "--output-dir", self.logs, EMULATED, "sh",
                                             "-c", script)
        self.assertEqual(status, 0)
        self.assertEqual(sorted(out.splitlines()), [b"out 0", b"out 3", b"out 4"])
        self.assertEqual(sorted(error.splitlines()), ["error 0", "error 3", "error 4"])
        for rank in range(6):
            self.assertEqual(self.read(f"rank-{rank}.out"), b"out %d\n" % rank)

    def test_a_rank_that_is_filtered_out_may_print_as_much_as_it_likes_and_still_be_summarized(self):
        status, out, error = self.run_gpurun("-n", "2", "--filter=0", EMULATED, *on_rank(
            1, "head -c 5000000 /dev/zero; echo it broke >&2; exit 4", "exec sleep 100"))
        self.assertEqual((status, out), (4, b""))
        self.check_own_line(error, "rank 1 ", "status 4", "the last line of its stderr: it broke\n")

    def test_ranks_that_are_not_there_cannot_be_chosen(self):
        for option in ("--filter=0,4", "--stdin=4"):
            status, _, error = self.run_gpurun("-n", "4", option, EMULATED, "true")
            self.assertEqual(status, 2)
            self.check_own_line(error, option.split("=")[0], "rank 4", "0 to 3")


class Input(LaunchedTest):
    COUNT = ("sh", "-c", "echo $GPURUN_RANK $(cat | cksum)")

    def readers(self, *options, stdin):
        """rank -> checksum and length of what it read"""
        status, out, error = self.run_gpurun("-n", "3", *options, EMULATED, *self.COUNT, stdin=stdin)
        self.assertEqual((status, error), (0, ""))
        return {int(line.split()[0]): tuple(map(int, line.split()[1:])) for line in out.splitlines()}

    def setUp(self):
        super().setUp()
        self.file = tempfile.TemporaryFile()
        self.addCleanup(self.file.close)
        self.file.write(os.urandom(700_000))
        self.file.flush()
        self.file.seek(0)
        self.sum = tuple(map(int, subprocess.run(["cksum"], stdin=self.file, stdout=subprocess.PIPE,
                                                 check=True).stdout.split()))
        self.file.seek(0)
        self.nothing = (4294967295, 0)

    def test_any_one_rank_reads_it(self):
        self.assertEqual(self.readers("--stdin=2", stdin=self.file),
                         {0: self.nothing, 1: self.nothing, 2: self.sum})

    def test_nobody_reads_it_and_it_is_left_to_others(self):
        self.assertEqual(self.readers("--stdin", "none", stdin=self.file), dict.fromkeys(range(3), self.nothing))
        self.assertEqual(len(self.file.read()), 700_000)

    def test_all_read_all_of_it_from_a_file(self):
        self.assertEqual(self.readers("--stdin=all", stdin=self.file), dict.fromkeys(range(3), self.sum))

    def test_all_read_all_of_it_from_a_pipe(self):
        with subprocess.Popen(["cat"], stdin=self.file, stdout=subprocess.PIPE) as pipe:
            self.assertEqual(self.readers("--stdin=all", stdin=pipe.stdout), dict.fromkeys(range(3), self.sum))

    def test_ranks_that_stop_reading_or_end_do_not_stop_the_others(self):
        script = "case $GPURUN_RANK in 0) exec <&-; sleep 0.2;; 1) exit;; 2) cat | cksum;; esac"
        status, out, error = self.run_gpurun("-n", "3", "--stdin=all", EMULATED, "sh", "-c", script, stdin=self.file)
        self.assertEqual((status, error), (0, ""))
        self.assertEqual(tuple(map(int, out.split())), self.sum)

    def test_the_slowest_reader_sets_the_pace(self):
        source, sink = os.pipe()
        os.set_blocking(sink, False)
        process = self.start("-n", "2", "--stdin=all", EMULATED, *on_rank(1, "echo up; sleep 100", "exec cat >/dev/null"),
                             stdin=source)
        process.stdout.readline()
        os.close(source)
        room = select.poll()
        room.register(sink, select.POLLOUT)
        written = 0  # into rank 1's pipe, our pipe, and a little in between
        while written < 50_000_000 and room.poll(500):
            written += os.write(sink, b"x" * 4096)
        self.assertLess(written, 1_000_000)
        os.close(sink)
        process.terminate()
        process.communicate(timeout=20)

    def test_what_is_typed_reaches_the_rank_that_was_chosen_or_all(self):
        for chosen, ranks in (("1", [1]), ("all", [0, 1])):
            pid, terminal = pty.fork()
            if pid == 0:
                os.execve(GPURUN, [GPURUN, "-n", "2", f"--stdin={chosen}", EMULATED, "sh", "-c",
                                   "while read line; do echo \"rank $GPURUN_RANK got $line\"; done"],
                          self.environment())
            os.write(terminal, b"hello\n")
            seen = b""
            while seen.count(b"got hello") < len(ranks):
                seen += os.read(terminal, 4096)
            self.assertEqual(sorted(int(rank) for rank in re.findall(rb"rank (\d) got hello", seen)), ranks)
            os.write(terminal, b"\x04")  # ^D
            self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), 0)
            os.close(terminal)


main()
