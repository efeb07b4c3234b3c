"""`meson setup build && meson install -C build`, as a user types it, compiles what it installs and nothing else.

plain_build_test.py SOURCE-ROOT: sets a folder up without any option (but for CUDA, which takes long to find), and looks
at what would be built.
"""
import json
import sys
import tempfile
import unittest
from pathlib import Path

from command import output

source = sys.argv.pop(1)


class PlainBuild(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.build = Path(folder.name)
        output("meson", "setup", cls.build, source, "-Dcuda=disabled")
        cls.steps = output("ninja", "-C", cls.build, "-n", "-v", "all").splitlines()

    def test_no_step_is_for_tests_or_examples(self):
        compiled = [step for step in self.steps if " -c " in step]
        self.assertGreater(len(compiled), 100)
        for folder in ("unit", "jobs", "support", "api", "stress", "faults"):
            self.assertEqual([step for step in self.steps if f" tests/{folder}" in step], [])
        self.assertEqual([step for step in self.steps if " examples/" in step], [])

    def test_every_program_and_shared_library_that_is_built_is_installed(self):
        for target in json.loads(output("meson", "introspect", self.build, "--targets")):
            if target["type"] in ("executable", "shared library", "shared module") and target["build_by_default"]:
                self.assertTrue(target["installed"], target["name"])

    def test_a_warning_of_another_compiler_does_not_end_it(self):
        self.assertEqual([step for step in self.steps if "-Werror" in step], [])

    def test_it_has_no_tests(self):
        self.assertEqual(json.loads(output("meson", "introspect", self.build, "--tests")), [])


if __name__ == "__main__":
    unittest.main(verbosity=2)
