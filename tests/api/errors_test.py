"""What an error does beside being returned: GPURUN_ERRORS, gpurun_errors_set() and GPURUN_LOG.

errors_test.py SOURCE-ROOT GPURUN MISTAKES LIFECYCLE: runs programs that do not look at what their calls return.
"""
import os
import re
import subprocess
import sys
import unittest
from pathlib import Path

source, gpurun, mistakes, lifecycle = (sys.argv.pop(1) for _ in range(4))

NOBODY = ("gpurun_send: GPURUN_ERR_RANK: destination 7 is not a rank of the communicator: it has ranks 0 to 1")
TRUNCATED = ("gpurun_recv: GPURUN_ERR_TRUNCATED: the message has 32 bytes, but the receive buffer only 16: its "
             "beginning was delivered")
MORE = "gpurun: rank 0: error: further errors are not shown; GPURUN_LOG=error shows all of them"


def run(*command, **settings):
    """Exit status, and the lines of both outputs."""
    environment = {name: value for name, value in os.environ.items() if name not in ("GPURUN_ERRORS", "GPURUN_LOG")}
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
                          timeout=60, env=environment | settings)
    return done.returncode, done.stdout.splitlines()


def job(mistake, *options, **settings):
    return run(gpurun, "-n", "2", "--device=emulated:2", *options, mistakes, mistake, **settings)


def alone(*command, **settings):
    return run(*command, GPURUN_DEVICE="emulated:0/1", **settings)


def line(text):
    return f"gpurun: rank 0: error: {text}"


class Errors(unittest.TestCase):
    def test_an_error_that_nobody_looks_at_is_told_once(self):
        self.assertEqual(job("rank"), (0, [line(NOBODY)]))
        self.assertEqual(job("truncated"), (0, [line(TRUNCATED)]))

    def test_a_program_that_gpurun_did_not_start_is_told_so(self):
        _, said = alone(mistakes, "rank")
        self.assertEqual(said, ["gpurun: error: " + NOBODY.replace("0 to 1", "0 to 0") + "; gpurun did not start this "
                                "process, so it is a job of one rank: use gpurun -n 2 PROGRAM"])

    def test_nothing_is_told_where_errors_are_only_returned(self):
        self.assertEqual(job("rank", GPURUN_ERRORS="return"), (0, []))
        self.assertEqual(job("truncated", GPURUN_ERRORS="return"), (0, []))

    def test_an_error_ends_the_job_with_its_number_where_errors_abort(self):
        for mistake, text, status in ("rank", NOBODY, 6), ("truncated", TRUNCATED, 13):
            ended, said = job(mistake, GPURUN_ERRORS="abort")
            self.assertEqual(ended, status)
            self.assertEqual(said[0], line(text + " (GPURUN_ERRORS=abort)"))
            self.assertRegex(said[1], rf"^gpurun: rank 0 .*called gpurun_abort\({status}\)")
            self.assertEqual(len(said), 2)

    def test_calls_that_succeed_say_nothing_and_end_nothing(self):
        for mode in "return", "warn", "abort":
            self.assertEqual(job("none", GPURUN_ERRORS=mode, GPURUN_LOG="error"), (0, []))

    def test_warnings_are_bounded_and_the_last_says_how_to_see_all(self):
        self.assertEqual(job("many"), (0, [line(NOBODY)] * 10 + [MORE]))

    def test_the_log_has_every_error_once_in_every_mode(self):
        for mode in "return", "warn":
            self.assertEqual(job("many", GPURUN_ERRORS=mode, GPURUN_LOG="error"), (0, [line(NOBODY)] * 1000))

    def test_the_program_s_choice_holds_over_the_environment_s(self):
        for mode in "warn", "return":
            ended, said = job("quiet-for-one", GPURUN_ERRORS=mode)
            self.assertEqual(ended, 0)
            wrong = line("gpurun_errors_set: GPURUN_ERR_ARGUMENT: 0 is no mode: pass GPURUN_ERRORS_RETURN, "
                         "GPURUN_ERRORS_WARN or GPURUN_ERRORS_ABORT")
            self.assertEqual(said, [wrong] if mode == "warn" else [])
        self.assertEqual(job("choice-before-init", GPURUN_ERRORS="abort"), (0, []))

    def test_errors_before_the_job_are_told_too(self):
        early = ("gpurun_send: GPURUN_ERR_NOT_INITIALIZED: gpurun_init() has not been called in this process: call it first")
        ended, said = job("too-early")
        self.assertEqual((ended, sorted(said)), (0, [line(early), line(early).replace("rank 0", "rank 1")]))
        self.assertEqual(job("too-early", GPURUN_ERRORS="return"), (0, []))
        self.assertEqual(alone(mistakes, "too-early", GPURUN_ERRORS="abort"),
                         (1, [f"gpurun: error: {early} (GPURUN_ERRORS=abort)"]))

    def test_an_init_that_fails_is_told_with_its_rank(self):
        ended, said = job("none", GPURUN_FENCE="hedge")
        self.assertEqual(ended, 1)
        text = "gpurun_init: GPURUN_ERR_SETTING: GPURUN_FENCE=hedge: must be one of auto, counter, event"
        self.assertIn(said[0], [line(text), line(text).replace("rank 0", "rank 1")])  # which ends the other
        self.assertEqual(job("none", GPURUN_FENCE="hedge", GPURUN_ERRORS="abort")[0], 19)

    def test_an_answer_is_no_error(self):
        for mode in "warn", "abort":
            self.assertEqual(job("count", GPURUN_ERRORS=mode), (0, []))
        text = line("gpurun_get_count: GPURUN_ERR_COUNT: the message has 10 bytes, which is not a whole number "
                    "of elements of 4 bytes")
        self.assertEqual(job("count", GPURUN_LOG="error"), (0, [text]))

    def test_a_lost_peer_is_told_by_gpurun_alone(self):
        ended, said = job("death", "--keep-going")
        self.assertEqual(ended, 137)
        self.assertIn("GPURUN_ERR_PEER_LOST", said)
        self.assertEqual([text for text in said if "error:" in text], [])
        logged = job("death", "--keep-going", GPURUN_LOG="error")[1]
        self.assertTrue(any(text.startswith(line("gpurun_recv: GPURUN_ERR_PEER_LOST: ")) for text in logged), logged)

    def test_every_call_that_fails_is_named(self):
        header = (Path(source) / "include/gpurun/gpurun.h").read_text()
        functions = set(re.findall(r"^GPURUN_API gpurun_status (gpurun_\w+)\(", header, re.M))
        self.assertGreater(len(functions), 60)
        ended, said = alone(lifecycle, GPURUN_ERRORS="return", GPURUN_LOG="error")
        self.assertEqual(ended, 0)
        named = {found[1] for text in said if (found := re.match(r"gpurun: error: (\w+): GPURUN_ERR_", text))}
        self.assertEqual(named, functions)


if __name__ == "__main__":
    unittest.main(verbosity=2)
