"""Programs of MPI are told that gpurun does not start MPI jobs; other programs are told nothing.

After gpurun and wire_rank: programs that need libmpi.so, libmpich.so, libmpi.so and libgpurun.so, and libmpir.so.
"""
import os
import sys
import tempfile

from launched import EMULATED, LaunchedTest, main

OPEN_MPI, MPICH, BOTH, MPIR = (os.path.abspath(path) for path in sys.argv[3:7])


class MpiPrograms(LaunchedTest):
    def told(self, *arguments):
        status, out, error = self.run_gpurun("--device=emulated:2", "--oversubscribe", *arguments)
        self.assertEqual((status, out), (0, b""), error)
        return error

    def test_a_program_of_mpi_is_told_of_once_and_runs(self):
        for program, library in (OPEN_MPI, "libmpi.so"), (MPICH, "libmpich.so"):
            error = self.told("-n", "3", program)
            self.assertEqual(error.count("\n"), 1, error)
            self.check_own_line(error, f"{program} needs {library}", "start it with mpirun")
            error = self.told("-n", "1", "true", ":", "-n", "1", program)
            self.check_own_line(error, f"{program} needs {library}")

    def test_one_rank_is_a_job_of_one_anyway(self):
        self.assertEqual(self.told("-n", "1", OPEN_MPI), "")

    def test_other_programs_and_scripts_are_told_nothing(self):
        with tempfile.TemporaryDirectory() as folder:
            script = os.path.join(folder, "script")
            with open(script, "w", encoding="ascii") as file:
                file.write(f"#!/bin/sh\nexec {OPEN_MPI}\n")
            os.chmod(script, 0o700)
            for program in BOTH, MPIR, "true", script:
                self.assertEqual(self.told("-n", "2", program), "")

    def test_a_dry_run_looks_at_no_program(self):
        status, _, error = self.run_gpurun(EMULATED, "-n", "2", "--dry-run", OPEN_MPI)
        self.assertEqual((status, error), (0, ""))


main()
