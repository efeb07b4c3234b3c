"""What `meson install` puts down, in a temporary folder, for tests that look at it.

Their command lines are SOURCE-ROOT BUILD-ROOT C-COMPILER C++-COMPILER. They build nothing that is installed: `depends:`
in meson.build does.
"""
import os
import shlex
import sys
import tempfile
import unittest
from pathlib import Path

from command import output

SOURCE, BUILD, CC, CXX = (sys.argv.pop(1) for _ in range(4))
HERE = Path(__file__).parent
GREETING = "hello from an outside program\n"  # of outside.c


def without(*names):
    """The environment of this process, without some of its variables."""
    return {name: value for name, value in os.environ.items() if name not in names}


class Staged(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.root = Path(folder.name)
        output("meson", "install", "-C", BUILD, "--no-rebuild", "--destdir", cls.root)
        cls.files = sorted(path for path in cls.root.rglob("*") if not path.is_dir())
        cls.library = cls.the_file("libgpurun.so")
        cls.prefix = cls.the_file("gpurun", "bin").parents[1]
        cls.environment = os.environ | {
            "PKG_CONFIG_PATH": str(cls.the_file("gpurun.pc").parent),
            "PKG_CONFIG_SYSROOT_DIR": str(cls.root),
            "LD_LIBRARY_PATH": str(cls.library.parent),
        }

    @classmethod
    def the_file(cls, name, folder=None):
        """The one that has this name; where several have it, the one in this folder."""
        found = [path for path in cls.files if path.name == name and folder in (None, path.parent.name)]
        if len(found) != 1:
            raise AssertionError(f"{name} is installed {len(found)} times: {found}")
        return found[0]

    def pkg_config(self, *options):
        return shlex.split(output("pkg-config", *options, "gpurun", env=self.environment))

    def pkg_config_of_prefix(self, *options):
        """As where the prefix is not in a sysroot: a library of the system is taken from the system."""
        environment = without("LD_LIBRARY_PATH") | {"PKG_CONFIG_PATH": self.environment["PKG_CONFIG_PATH"]}
        command = ("pkg-config", f"--define-variable=prefix={self.prefix}", *options, "gpurun")
        return shlex.split(output(*command, env=environment))

    def check_greeting(self, program, environment):
        said = output(self.the_file("gpurun", "bin"), "-n", "2", "--device=emulated", program, env=environment)
        self.assertEqual(said, GREETING)
