"""What zsh and fish offer while a command line of gpurun's is typed: the same as bash (completion.py)."""
import os
import re
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

from launched import GPURUN, main

SCRIPTS = Path(__file__).resolve().parents[3] / "launcher/completion"

# zsh completes in a terminal only: TAB is pressed in one, and what would be shown is printed between two marks.
ZSH_DRIVER = r"""
zmodload zsh/zpty
zpty shell zsh -f -i
zpty -w shell "PROMPT= RPROMPT=; fpath=($1 \$fpath); source $1/offers; print ready"
while zpty -r shell line; do [[ $line == ready* ]] && break; done
zpty -w shell "$2"$'\t'
inside=0
while zpty -r shell line; do
    case $line in
    *BEGIN-OFFERS*) inside=1 ;;
    *END-OFFERS*) break ;;
    *) ((inside)) && print -r -- "${line%$'\r\n'}" ;;
    esac
done
"""
ZSH_OFFERS = r"""
autoload -Uz compinit
compinit -u -D
bindkey '^I' complete-word
zstyle ':completion:*' insert-tab false
compadd() {
    if [[ ${@[1,(i)(-|--)]} == *-(O|A|D)\ * ]]; then
        builtin compadd "$@"
        return
    fi
    local -a hits prefix
    builtin compadd -A hits "$@"
    zparseopts -E p:=prefix
    local hit
    for hit in $hits; do print -r -- "$IPREFIX$prefix[2]$hit"; done
    builtin compadd "$@"
}
begin-offers() { print; print BEGIN-OFFERS }
end-offers() { print END-OFFERS; exit }
compprefuncs=(begin-offers)
comppostfuncs=(end-offers)
"""


class Shell:
    """What both have in common. A shell says what it offers for a line that starts with gpurun."""

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.home = Path(folder.name)
        os.symlink(GPURUN, cls.home / "gpurun")
        cls.environment = os.environ | {"HOME": str(cls.home), "PATH": f"{cls.home}:{os.environ['PATH']}",
                                        "TERM": "dumb"}
        cls.place = cls.home / "place"
        cls.place.mkdir()
        for name in ("one.xml", "one.txt"):
            (cls.place / name).touch()
        (cls.place / "one_folder").mkdir()

    def run_shell(self, *command):
        done = subprocess.run(command, cwd=self.place, env=self.environment, capture_output=True, text=True, timeout=60,
                              stdin=subprocess.DEVNULL, check=True)
        self.assertEqual(done.stderr, "")
        return sorted(set(filter(None, done.stdout.splitlines())))

    def test_every_option_of_the_help_is_offered(self):
        text = subprocess.run([GPURUN, "--help"], capture_output=True, text=True, check=True).stdout
        wanted = set(re.findall(r"^  (?:-\w, )?(--[a-z-]+)", text, re.M))
        self.assertEqual({offer.rstrip("=") for offer in self.offered("--")}, wanted)
        self.assertEqual(self.offered("--gpu"), ["--gpu-visible", "--gpus"])
        self.assertEqual(self.offered("-n 2 --gpus 0,1 --keep"), ["--keep-going"])

    def test_the_words_of_an_option_are_offered_in_both_spellings(self):
        for between in (" ", "="):
            self.assertEqual(self.values(f"--bind-to{between}n"), ["none", "numa"])
            self.assertEqual(self.values(f"--mps{between}o"), ["off", "on"])
            self.assertEqual(self.values(f"--device{between}e"), ["emulated"])
            self.assertEqual(self.values(f"--map-by{between}l"), ["list:"])
            self.assertEqual(self.values(f"--stdin{between}"), ["all", "none"])
        self.assertEqual(self.values("--bind-to="), ["core", "none", "numa"])
        self.assertEqual(self.values("--membind=p"), ["prefer"])
        self.assertEqual(self.values("-n "), [])

    def test_the_list_of_jobs_is_offered_with_its_options(self):
        self.assertIn("jobs", self.offered("job"))
        self.assertLessEqual({"--json", "--watch"}, set(self.offered("jobs --")))
        self.assertNotIn("--gpus", self.offered("jobs --"))

    def values(self, line):
        return sorted(offer.rpartition("=")[2] for offer in self.offered(line))

    def test_folders_and_records_are_offered_where_they_are_meant(self):
        self.assertEqual(self.offered("--chdir one"), ["one_folder"])
        self.assertEqual(self.offered("--output-dir one"), ["one_folder"])
        self.assertIn("one.xml", self.offered("--topology one"))

    def test_behind_the_program_its_words_are_completed_and_behind_a_colon_options_again(self):
        for before in ("", "-n 2 ", "--membind ", "--bind-to=core ", "-- "):
            self.assertIn("--almost-all", self.offered(f"{before}ls --al"), before)
        self.assertEqual(self.offered("-n 1 ls : -n 1 --chd"), ["--chdir"])
        self.assertEqual(self.offered("-n 1 ls : --membin"), ["--membind"])


@unittest.skipUnless(shutil.which("zsh"), "there is no zsh")
class Zsh(Shell, unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        shutil.copy(SCRIPTS / "gpurun.zsh", cls.home / "_gpurun")
        (cls.home / "offers").write_text(ZSH_OFFERS, encoding="ascii")

    def offered(self, line):
        offers = self.run_shell("zsh", "-f", "-c", ZSH_DRIVER, "_", str(self.home), f"gpurun {line}")
        return [offer.rstrip("/") for offer in offers]


@unittest.skipUnless(shutil.which("fish"), "there is no fish")
class Fish(Shell, unittest.TestCase):
    def offered(self, line):
        offers = self.run_shell("fish", "--command", f"source {SCRIPTS}/gpurun.fish; complete -C $argv[1]",
                                f"gpurun {line}")
        return sorted(offer.split("\t")[0].rstrip("/") for offer in offers)


main()
