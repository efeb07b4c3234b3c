"""find_package(gpurun) of CMake: the examples, as they are installed, and a project of somebody else."""
import shutil
import subprocess
import sys
import unittest

from staged import CC, CXX, HERE, Staged, output, without

# Of the examples, which would take it if there is one.
NO_CUDA = "-DCMAKE_CUDA_COMPILER=NOTFOUND"

PROJECT = """cmake_minimum_required(VERSION 3.18)
project(outside LANGUAGES CXX)
find_package(gpurun {} REQUIRED)
find_package(gpurun REQUIRED) # as two parts of a project may
add_executable(outside {})
target_link_libraries(outside PRIVATE gpurun::gpurun)
"""


class CMake(Staged):
    def configure(self, source, *options):
        return ["cmake", "-G", "Ninja", "-S", source, "-B", source / "build", f"-DCMAKE_PREFIX_PATH={self.prefix}",
                f"-DCMAKE_C_COMPILER={CC}", f"-DCMAKE_CXX_COMPILER={CXX}", *options]

    def project(self, name, version):
        folder = self.root / name
        folder.mkdir()
        shutil.copy(HERE / "outside.c", folder / "outside.cpp")
        (folder / "CMakeLists.txt").write_text(PROJECT.format(version, "outside.cpp"), encoding="ascii")
        return folder

    def test_the_installed_examples_build_and_run(self):
        folder = self.root / "examples"
        shutil.copytree(self.prefix / "share/doc/gpurun/examples", folder)
        environment = without("LD_LIBRARY_PATH")
        output(*self.configure(folder, NO_CUDA), env=environment)
        output("cmake", "--build", folder / "build", "--parallel", "2", env=environment)
        self.assertIn("100% tests passed", output("ctest", "--test-dir", folder / "build", env=environment))

    def test_a_project_of_somebody_else_builds_and_runs(self):
        folder = self.project("somebody", "0.1")
        environment = without("LD_LIBRARY_PATH")
        output(*self.configure(folder), env=environment)
        output("cmake", "--build", folder / "build", env=environment)
        self.check_greeting(folder / "build/outside", environment)

    def test_another_version_is_not_taken_for_the_one_that_is_wanted(self):
        good = ("0.1.0", "0", "0.1.0 EXACT", "0.0...0.2")
        bad = ("0.0", "0.1.9", "0.2", "1.0", "0.0...<0.1")
        for number, version in enumerate(good + bad):
            fits = version in good
            with self.subTest(version):
                command = self.configure(self.project(f"version-{number}", version))
                done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
                self.assertEqual(done.returncode == 0, fits, done.stdout + done.stderr)
                if not fits:
                    self.assertIn("version: 0.1.0", done.stderr)


if __name__ == "__main__":
    if not shutil.which("cmake"):
        print("skipped: needs cmake")
        sys.exit(77)
    unittest.main(verbosity=2)
