"""What `meson install` puts down is enough for somebody else's program, and no more than was promised.

install_test.py SOURCE-ROOT BUILD-ROOT C-COMPILER C++-COMPILER: installs into a temporary folder and looks there.
"""
import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

source, build, cc, cxx = (sys.argv.pop(1) for _ in range(4))
HERE = Path(__file__).parent


def output(*command, **options):
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120, **options)
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(map(str, command))}\nended with {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


class Installed(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        cls.root = Path(cls.folder.name)
        output("meson", "install", "-C", build, "--no-rebuild", "--destdir", cls.root)
        cls.files = sorted(path for path in cls.root.rglob("*") if not path.is_dir())
        cls.library = cls.the_file("libgpurun.so")
        cls.environment = os.environ | {
            "PKG_CONFIG_PATH": str(cls.the_file("gpurun.pc").parent),
            "PKG_CONFIG_SYSROOT_DIR": str(cls.root),
            "LD_LIBRARY_PATH": str(cls.library.parent),
        }

    @classmethod
    def the_file(cls, name):
        found = [path for path in cls.files if path.name == name and "completions" not in path.parts]
        if len(found) != 1:
            raise AssertionError(f"{name} is installed {len(found)} times: {found}")
        return found[0]

    def functions(self):
        header = self.the_file("gpurun.h").read_text()
        found = re.findall(r"^GPURUN_(?:API|EXPORT) [^;(]*?(gpurun_\w+)\(", header, re.M)
        self.assertGreater(len(found), 30)
        return found

    def build_and_run(self, *compiler):
        program = self.root / "outside"
        flags = output("pkg-config", "--cflags", "--libs", "gpurun", env=self.environment).split()
        output(*compiler, "-pedantic", "-Wall", "-Wextra", "-Werror", HERE / "outside.c", "-o", program, *flags)
        said = output(self.the_file("gpurun"), "-n", "2", "--device=emulated", program, env=self.environment)
        self.assertEqual(said, "hello from an outside program\n")

    def test_a_c99_program_builds_and_runs(self):
        self.build_and_run(cc, "-std=c99")

    def test_a_cxx11_program_builds_and_runs(self):
        self.build_and_run(cxx, "-x", "c++", "-std=c++11")

    def test_a_cxx20_program_builds_and_runs(self):
        self.build_and_run(cxx, "-x", "c++", "-std=c++20")

    def test_the_installed_benchmark_finds_the_installed_library(self):
        environment = {name: value for name, value in os.environ.items() if name != "LD_LIBRARY_PATH"}
        said = output(self.the_file("gpurun"), "-n", "2", "--device=emulated", self.the_file("gpurun-perf"), "latency",
                      "--sizes=8", "--iterations=2", env=environment)
        self.assertIn("# latency, order domain: host", said)

    def test_the_library_exports_what_the_header_declares_and_nothing_else(self):
        symbols = output("nm", "-D", "--defined-only", "--with-symbol-versions", self.library).splitlines()
        exported = sorted(line.split()[2] for line in symbols if line.split()[1] != "A")  # A: the version itself
        self.assertEqual(exported, sorted(f"{name}@@GPURUN_0.1" for name in self.functions()))

    def test_the_symbol_map_lists_what_the_header_declares(self):
        text = (Path(source) / "runtime/api/gpurun.map").read_text()
        listed = re.findall(r"^\s+(gpurun_\w+);", text, re.M)
        self.assertEqual(sorted(listed), sorted(self.functions()))

    def test_the_library_has_a_soname_with_its_major_version(self):
        self.assertIn("[libgpurun.so.0]", output("readelf", "-d", self.library))

    def test_pkg_config_knows_the_version(self):
        version = re.search(r'GPURUN_VERSION "(.*)"', self.the_file("version.h").read_text())[1]
        self.assertEqual(output("pkg-config", "--modversion", "gpurun", env=self.environment).strip(), version)

    def test_every_function_and_the_four_other_pages_are_in_the_manual(self):
        pages = {path.name for path in self.files if "man" in path.parts}
        wanted = {f"{name}.3" for name in self.functions()} | {
            "gpurun.1", "gpurun-perf.1", "gpurun.7", "gpurun_environment.7"}
        self.assertEqual(pages, wanted)

    def test_completion_is_where_bash_looks_for_it(self):
        completions = [path for path in self.files if "completions" in path.parts]
        self.assertEqual([path.parts[-3:] for path in completions], [("bash-completion", "completions", "gpurun")])
        output("bash", "--norc", "-n", completions[0])

    def test_nothing_else_is_installed(self):
        names = {path.name for path in self.files if "man" not in path.parts and "completions" not in path.parts}
        names = {re.sub(r"\.so\.[\d.]+$", ".so", name) for name in names}
        self.assertEqual(names, {"gpurun", "gpurun-perf", "gpurun.h", "version.h", "libgpurun.so", "gpurun.pc"})


if __name__ == "__main__":
    unittest.main(verbosity=2)
