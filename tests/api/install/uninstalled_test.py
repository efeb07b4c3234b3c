"""An outside program is built and run against the build folder, by the pkg-config file that Meson puts there."""
import shlex
import tempfile
import unittest
from pathlib import Path

from staged import BUILD, CC, GREETING, HERE, output, without


class Uninstalled(unittest.TestCase):
    def setUp(self):
        self.environment = without("LD_LIBRARY_PATH", "PKG_CONFIG_SYSROOT_DIR") | {
            "PKG_CONFIG_PATH": str(Path(BUILD) / "meson-uninstalled")}

    def pkg_config(self, *options):
        return shlex.split(output("pkg-config", *options, "gpurun", env=self.environment))

    def test_a_program_builds_and_runs_against_the_build_folder(self):
        (folder,) = (flag[2:] for flag in self.pkg_config("--libs-only-L"))
        with tempfile.TemporaryDirectory() as there:
            program = Path(there) / "outside"
            output(CC, "-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror", HERE / "outside.c", "-o", program,
                   *self.pkg_config("--cflags", "--libs"), f"-Wl,-rpath,{folder}")
            said = output(Path(BUILD) / "launcher/gpurun", "-n", "2", "--device=emulated", program, env=self.environment)
        self.assertEqual(said, GREETING)

    def test_every_folder_that_it_names_is_there(self):
        named = [flag[2:] for flag in self.pkg_config("--cflags-only-I", "--libs-only-L")]
        self.assertGreaterEqual(len(named), 2)
        self.assertTrue(any((Path(each) / "gpurun/gpurun.h").exists() for each in named), named)
        self.assertTrue(any((Path(each) / "libgpurun.so").exists() for each in named), named)


unittest.main()
