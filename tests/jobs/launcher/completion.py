"""What bash offers while a command line of gpurun's is typed."""
import re
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

from launched import GPURUN, main

SCRIPT = Path(__file__).resolve().parents[3] / "launcher/completion/gpurun.bash"
# As readline cuts words.
WORDS = re.compile(r"[=:]|[^\s=:]+")

DRIVER = """
source "$1"; shift
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
_gpurun
printf '%s\\n' "${COMPREPLY[@]}"
"""


def offered(line, folder="/"):
    words = WORDS.findall(line) + ([""] if line.endswith(" ") else [])
    done = subprocess.run(["bash", "--norc", "-c", DRIVER, "_", SCRIPT, GPURUN, *words], cwd=folder,
                          capture_output=True, text=True, timeout=60, check=True)
    if done.stderr:
        raise AssertionError(done.stderr)
    return sorted(set(filter(None, done.stdout.splitlines())))


@unittest.skipUnless(shutil.which("bash"), "there is no bash")
class Completion(unittest.TestCase):
    def test_every_option_of_the_help_is_offered(self):
        text = subprocess.run([GPURUN, "--help"], capture_output=True, text=True, check=True).stdout
        wanted = set(re.findall(r"^  (?:-\w, )?(--[a-z-]+)", text, re.M))
        self.assertGreater(len(wanted), 20)
        self.assertEqual(set(offered("--")), wanted)
        self.assertLessEqual({"--tag-output", "--timestamp", "--output-dir", "--filter", "--stdin", "--timeout", "--grace"},
                             wanted)
        self.assertEqual(offered("--gpu"), ["--gpu-visible", "--gpus"])
        self.assertEqual(offered("-n 2 --gpus 0,1 --keep"), ["--keep-going"])

    def test_the_words_of_an_option_are_offered_in_both_spellings(self):
        for between in (" ", "="):
            self.assertEqual(offered(f"--bind-to{between}n"), ["none", "numa"])
            self.assertEqual(offered(f"--mps{between}o"), ["off", "on"])
            self.assertEqual(offered(f"--pty{between}a"), ["auto"])
            self.assertEqual(offered(f"--device{between}e"), ["emulated"])
            self.assertEqual(offered(f"--map-by{between}l"), ["list:"])
            self.assertEqual(offered(f"--stdin{between}"), ["all", "none"])
        self.assertEqual(offered("--bind-to="), ["core", "none", "numa"])
        self.assertEqual(offered("--membind=p"), ["prefer"])
        self.assertEqual(offered("-n "), [])

    def test_the_list_of_jobs_is_offered_with_its_options(self):
        self.assertIn("jobs", offered("job"))
        self.assertEqual(offered("jobs --"), ["--help", "--json", "--watch"])

    def test_folders_and_records_are_offered_where_they_are_meant(self):
        with tempfile.TemporaryDirectory() as folder:
            for name in ("one.xml", "one.txt"):
                (Path(folder) / name).touch()
            (Path(folder) / "one_folder").mkdir()
            self.assertEqual(offered("--chdir one", folder), ["one_folder"])
            self.assertEqual(offered("--output-dir one", folder), ["one_folder"])
            self.assertEqual(offered("--topology one", folder), ["one.xml", "one_folder"])
            self.assertEqual(offered("./one", folder), ["./one.txt", "./one.xml", "./one_folder"])

    def test_behind_the_program_its_words_are_completed_and_behind_a_colon_options_again(self):
        with tempfile.TemporaryDirectory() as folder:
            (Path(folder) / "--data").touch()
            self.assertEqual(offered("-n 2 ./app --", folder), ["--data"])
            self.assertEqual(offered("--membind ./app --", folder), ["--data"])
            self.assertEqual(offered("--bind-to=core ./app --", folder), ["--data"])
            self.assertEqual(offered("-- ./app --", folder), ["--data"])
            self.assertIn("--chdir", offered("-n 1 ./a : -n 1 --c", folder))


main()
