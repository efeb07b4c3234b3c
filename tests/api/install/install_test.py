"""What `meson install` puts down is enough for somebody else's program, and no more than was promised."""
import re
import unittest
from pathlib import Path

from staged import CC, CXX, HERE, SOURCE, Staged, output, without


class Installed(Staged):
    def functions(self):
        header = self.the_file("gpurun.h").read_text()
        found = re.findall(r"^GPURUN_(?:API|EXPORT) [^;(]*?(gpurun_\w+)\(", header, re.M)
        self.assertGreater(len(found), 30)
        return found

    def build_and_run(self, *compiler):
        program = self.root / "outside"
        output(*compiler, "-pedantic", "-Wall", "-Wextra", "-Werror", HERE / "outside.c", "-o", program,
               *self.pkg_config("--cflags", "--libs"))
        self.check_greeting(program, self.environment)

    def test_a_c99_program_builds_and_runs(self):
        self.build_and_run(CC, "-std=c99")

    def test_a_cxx11_program_builds_and_runs(self):
        self.build_and_run(CXX, "-x", "c++", "-std=c++11")

    def test_a_cxx20_program_builds_and_runs(self):
        self.build_and_run(CXX, "-x", "c++", "-std=c++20")

    def test_the_installed_benchmark_finds_the_installed_library(self):
        said = output(self.the_file("gpurun", "bin"), "-n", "2", "--device=emulated", self.the_file("gpurun-perf"),
                      "latency", "--sizes=8", "--iterations=2", env=without("LD_LIBRARY_PATH"))
        self.assertIn("# latency, order domain: host", said)

    def test_the_library_exports_what_the_header_declares_and_nothing_else(self):
        symbols = output("nm", "-D", "--defined-only", "--with-symbol-versions", self.library).splitlines()
        exported = sorted(line.split()[2] for line in symbols if line.split()[1] != "A")  # A: the version itself
        self.assertEqual(exported, sorted(f"{name}@@GPURUN_0.1" for name in self.functions()))

    def test_the_symbol_map_lists_what_the_header_declares(self):
        text = (Path(SOURCE) / "runtime/api/gpurun.map").read_text()
        listed = re.findall(r"^\s+(gpurun_\w+);", text, re.M)
        self.assertEqual(sorted(listed), sorted(self.functions()))

    def test_the_library_has_a_soname_with_its_major_version(self):
        self.assertIn("[libgpurun.so.0]", output("readelf", "-d", self.library))

    def test_pkg_config_knows_the_version(self):
        version = re.search(r'GPURUN_VERSION "(.*)"', self.the_file("version.h").read_text())[1]
        self.assertEqual(self.pkg_config("--modversion"), [version])

    def test_every_function_and_the_nine_other_pages_are_in_the_manual(self):
        pages = {path.name for path in self.files if "man" in path.parts}
        wanted = {f"{name}.3" for name in self.functions()} | {
            "gpurun.1", "gpurun-perf.1", "gpurun.7", "gpurun_debugging.7",
            "gpurun_environment.7", "gpurun_fabric.7", "gpurun_loans.7", "gpurun_multiprocessing.7", "gpurun_python.7"}
        self.assertEqual(pages, wanted)

    def test_completion_is_where_each_shell_looks_for_it(self):
        shared = self.prefix / "share"
        found = {str(path.relative_to(shared)) for path in self.files if re.search("completion|/zsh/", str(path))}
        self.assertEqual(found, {"bash-completion/completions/gpurun", "fish/vendor_completions.d/gpurun.fish",
                                 "zsh/site-functions/_gpurun"})

    def test_the_licence_and_the_examples_are_installed(self):
        documents = self.prefix / "share/doc/gpurun"
        self.assertEqual((documents / "LICENSE").read_bytes(), (Path(SOURCE) / "LICENSE").read_bytes())
        sources = Path(SOURCE) / "examples"
        wanted = {path.relative_to(sources) for path in sources.rglob("*")
                  if path.suffix in (".c", ".h", ".cu") or path.name == "CMakeLists.txt"}
        examples = documents / "examples"
        self.assertEqual({path.relative_to(examples) for path in examples.rglob("*") if path.is_file()}, wanted)

    def test_a_program_under_a_private_prefix_finds_its_library_when_linked_as_the_readme_says(self):
        self.assertIn("-Wl,-rpath,$(pkg-config --variable=libdir gpurun)", (Path(SOURCE) / "README.md").read_text())
        environment = without("LD_LIBRARY_PATH")
        flags = self.pkg_config_of_prefix("--cflags", "--libs")
        (folder,) = self.pkg_config_of_prefix("--variable=libdir")
        program = self.root / "private"
        output(CC, HERE / "outside.c", "-o", program, *flags, f"-Wl,-rpath,{folder}")
        self.check_greeting(program, environment)

    def test_a_program_with_gpurun_linked_statically_needs_no_library_of_gpuruns(self):
        if not any(path.name == "libgpurun.a" for path in self.files):
            self.skipTest("compiled several files at a time (-Dunity): there is no libgpurun.a")
        flags = self.pkg_config_of_prefix("--static", "--cflags", "--libs")
        self.assertIn("-lstdc++", flags)
        program = self.root / "static"
        flags = ["-l:libgpurun.a" if flag == "-lgpurun" else flag for flag in flags]
        output(CC, HERE / "outside.c", "-o", program, *flags)
        self.assertNotIn("gpurun", output("readelf", "-d", program))
        self.check_greeting(program, without("LD_LIBRARY_PATH"))

    def test_nothing_else_is_installed(self):
        package = {"site-packages", "dist-packages"}  # of Python, if that is built: tests/python
        names = {path.name for path in self.files if "share" not in path.parts and not package & set(path.parts)}
        names = {re.sub(r"\.so\.[\d.]+$", ".so", name) for name in names} - {"libgpurun.a"}
        self.assertEqual(names, {"gpurun", "gpurun-perf", "gpurun.h", "version.h", "libgpurun.so", "gpurun.pc",
                                 "gpurun-config.cmake", "gpurun-config-version.cmake"})
        shared = self.prefix / "share"
        self.assertEqual({path.relative_to(shared).parts[0] for path in self.files if shared in path.parents},
                         {"man", "doc", "bash-completion", "fish", "zsh"})


if __name__ == "__main__":
    unittest.main(verbosity=2)
