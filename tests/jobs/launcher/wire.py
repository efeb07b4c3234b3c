"""Ranks that join, leave and misbehave on the wire to gpurun."""
from launched import EMULATED, WIRE_RANK, LaunchedTest, main


class Wire(LaunchedTest):
    def ranks(self, count, *behaviours, options=()):
        status, out, error = self.run_gpurun("-n", str(count), EMULATED, *options, WIRE_RANK, *behaviours)
        return status, out.decode(), error

    def test_ranks_that_join_and_finalize_end_well(self):
        for count in (1, 2, 16, 64):
            with self.subTest(count):
                self.assertEqual(self.ranks(count, "finalize"), (0, "", ""))

    def test_a_rank_that_does_not_finalize_failed(self):
        status, _, error = self.ranks(3, "stay", "1=quit")
        self.assertEqual(status, 1)
        self.check_own_line(error, "rank 1 (pid ", "exited without gpurun_finalize()")

    def test_a_crash_releases_and_ends_the_others(self):
        status, out, error = self.ranks(2, "await-rank-1", "1=crash", options=["--keep-going"])
        self.assertEqual((status, out), (137, "released by poison\n"))
        self.check_own_line(error, "rank 1 ", "signal 9", "go on")
        status, _, error = self.ranks(4, "stay", "2=crash")
        self.assertEqual(status, 137)
        self.check_own_line(error, "rank 2 ", "signal 9", "the other ranks were ended")

    def test_a_status_after_finalize_counts(self):
        status, _, error = self.ranks(2, "finalize", "1=fail-after-finalize")
        self.assertEqual(status, 4)
        self.check_own_line(error, "rank 1 ", "status 4")

    def test_an_abort_ends_the_job_with_its_code(self):
        status, _, error = self.ranks(3, "stay", "2=abort-5")
        self.assertEqual(status, 5)
        self.check_own_line(error, "rank 2 ", "gpurun_abort(5)")
        self.assertEqual(self.ranks(3, "stay", "0=abort-0")[0], 1)
        self.assertEqual(self.ranks(3, "stay", "1=abort-5", options=["--keep-going"])[0], 5)

    def test_a_rank_that_never_joins_ends_a_job_of_which_others_wait_for_it(self):
        for absent in ("absent", "absent-later"):  # before and after the others have come
            with self.subTest(absent):
                status, _, error = self.ranks(3, "hello-and-sleep", f"1={absent}")
                self.assertEqual(status, 1)
                self.check_own_line(error, "rank 1 ", "gpurun_init()")

    def test_who_keeps_going_is_not_left_waiting_in_init(self):
        status, out, error = self.ranks(3, "finalize", "1=absent-later", options=["--keep-going"])
        self.assertEqual((status, out), (1, "not started, status 14\n" * 2))
        self.assertIn("rank 1 ", error)

    def test_a_rank_that_leaves_or_ends_while_joining_ends_the_job(self):
        status, _, error = self.ranks(2, "hello-and-sleep", "1=hello-and-leave")
        self.assertEqual(status, 1)
        self.check_own_line(error, "rank 1 ", "gpurun_init()")
        status, _, error = self.ranks(2, "hello-and-sleep", "1=hello-and-exit")
        self.assertEqual(status, 1)
        self.check_own_line(error, "rank 1 ", "without gpurun_finalize()")

    def test_other_versions_are_refused_by_name_and_the_job_fails(self):
        status, out, error = self.ranks(3, "other-version")
        self.assertEqual(status, 1)
        self.assertEqual(out.count("refused with status 17"), 3)
        self.check_own_line(error, "gpurun 1.", "gpurun 0.")

    def test_one_other_version_refuses_all(self):
        status, out, error = self.ranks(3, "finalize", "2=other-version")
        self.assertEqual(status, 1)
        self.assertEqual(out.count("status 17"), 3, out)
        self.check_own_line(error, "rank 2 ")

    def test_garbage_ends_the_job_in_one_line(self):
        for behaviour in ("garbage", "truncated", "oversized"):
            with self.subTest(behaviour):
                status, _, error = self.ranks(3, "hello-and-sleep", f"1={behaviour}")
                self.assertEqual(status, 1)
                self.check_own_line(error, "rank 1 ", "does not understand")

    def test_a_rank_that_aborts_without_end_does_not_keep_gpurun_busy(self):
        status, _, error = self.ranks(3, "stay", "1=abort-flood", options=["--grace=0.3"])
        self.assertEqual(status, 5)
        self.check_own_line(error, "rank 1 ", "gpurun_abort(5)")

    def test_nonsense_of_any_kind_ends_the_job_cleanly(self):
        for seed in range(150):
            others = ("finalize", "stay", "hello-and-sleep", "absent")[seed % 4]
            # Those that stay would wait for ever if the one that speaks nonsense happened to end well.
            options = ["--grace=0.1", *(["--keep-going"] if seed % 5 == 0 and others in ("finalize", "absent") else [])]
            with self.subTest(seed=seed):
                status, _, error = self.ranks(3, others, f"1=fuzz-{seed}",
                                              *([f"2=fuzz-{seed + 1000}"] if seed % 3 else []), options=options)
                self.assertIn(status, range(256), "gpurun was killed by a signal")
                for line in error.splitlines():
                    self.assertRegex(line, r"^gpurun: rank \d \(pid \d+")


main()
