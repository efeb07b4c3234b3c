"""Each check accepts a good sample and rejects a bad one, for the reason that it is there for.

SAMPLES holds, for each check, files that break nothing, and changes to them that break it: (text in a violation,
files). A change of None removes a file.
"""
import sys
import tempfile
from pathlib import Path

sys.dont_write_bytecode = True

import run  # noqa: E402,F401  registers the checks
from tree import CHECKS, Skip, Tree  # noqa: E402

HEADER = """
typedef enum gpurun_status {
    GPURUN_OK = 0,
    GPURUN_ERR_RANK = 6,
} gpurun_status;

/**
 * Send it.
 *
 * @retval GPURUN_ERR_RANK  no
 *
 * Since 0.1.
 */
GPURUN_API gpurun_status gpurun_send(const void *buffer, void (*function)(void *a, int b), int dest);

/** End. Since 0.1. */
GPURUN_EXPORT void gpurun_abort(void) __attribute__((noreturn));
"""

SEND_PAGE = """.Dd November 21, 2026
.Dt GPURUN_SEND 3
.Os
.Sh NAME
.Nm gpurun_send ,
.Nm gpurun_abort
.Nd send it
.Sh SYNOPSIS
.In gpurun/gpurun.h
.Ft gpurun_status
.Fo gpurun_send
.Fa "const void *buffer"
.Fa "void (*function)(void *a, int b)"
.Fa "int dest"
.Fc
.Ft void
.Fn gpurun_abort void
.Sh DESCRIPTION
.Fn gpurun_send
sends.
.Sh RETURN VALUES
.Bl -tag -width Ds
.It Dv GPURUN_ERR_RANK
No.
.El
.Sh SEE ALSO
.Xr gpurun 1
"""

MANUAL = {
    "include/gpurun/gpurun.h": HEADER,
    "man/gpurun_send.3": SEND_PAGE,
    "man/meson.build": "install_man(\n    'gpurun_send.3',\n)\naliases = {\n    'gpurun_abort': 'gpurun_send',\n}\n",
}

ENVIRONMENT = """.Bl -tag -width Ds
.It Ev GPURUN_LOG
Says things.
Default:
.Ql error .
.It Ev GPURUN_SPIN_US
Default: unset.
.El
"""
SETTINGS = '{"GPURUN_LOG", "error", "says"},\n{"GPURUN_SPIN_US", "", "spins"},\n'

MODEL = """.Sh GUARANTEES
.Bl -tag -width Ds
.It Order
There is one.
.Pp
Shown by
.Dq messages keep their order .
.El
.Sh SEE ALSO
"""


SAMPLES = {
    "an include points to its own layer or to one below": (
        {"runtime/comm/a.cpp": '#include "comm/a.hpp"\n#include "base/b.hpp"\n#include <vector>\n'},
        [("stands above", {"runtime/base/b.cpp": '#include "comm/a.hpp"\n'}),
         ("names the layer", {"runtime/base/b.cpp": '#include "b.hpp"\n'}),
         ("no layer", {"runtime/extra/b.cpp": "#include <vector>\n"}),
         ("public header", {"runtime/comm/b.cpp": "#include <gpurun/gpurun.h>\n"})]),
    "the launcher uses base and platform only": (
        {"launcher/a.cpp": '#include "launcher/a.hpp"\n#include "platform/b.hpp"\n'},
        [("device/device.hpp", {"launcher/b.cpp": '#include "device/device.hpp"\n'})]),
    "a quoted include names a file of the runtime or the launcher": (
        {"runtime/base/a.cpp": '#include "base/a.hpp"\n', "runtime/base/a.hpp": "\n"},
        [("there is no", {"runtime/base/a.hpp": None})]),
    "only the cuda device includes cuda": (
        {"runtime/device/cuda/a.cpp": "#include <cuda_runtime.h>\n"},
        [("belongs in", {"runtime/transfer/a.cpp": "#include <cuda.h>\n"}),
         ("belongs in", {"launcher/a.cpp": "#  include <nvml.h>\n"})]),
    "only platform includes linux": (
        {"runtime/platform/a.cpp": "#include <sys/mman.h>\n", "runtime/base/b.cpp": "#include <cerrno>\n"},
        [("belongs in", {"runtime/base/b.cpp": "#include <unistd.h>\n"}),
         ("belongs in", {"launcher/b.cpp": "#include <csignal>\n"}),
         ("belongs in", {"runtime/device/emulated/b.cpp": "#include <linux/futex.h>\n"})]),
    "devices do not know each other": (
        {"runtime/device/cuda/a.cpp": '#include "device/cuda/a.hpp"\n#include "device/capability/b.hpp"\n',
         "runtime/device/open.cpp": '#include "device/cuda/a.hpp"\n#include "device/open.hpp"\n'},
        [("must not know", {"runtime/device/emulated/a.cpp": '#include "device/cuda/a.hpp"\n'}),
         ("must not know", {"runtime/device/device.hpp": '#include "device/cuda/a.hpp"\n'})]),
    "no file is longer than 600 lines": (
        {"runtime/base/a.cpp": "\n" * 600},
        [("601 lines", {"runtime/base/a.cpp": "\n" * 601})]),
    "no function of a script is longer than 70 lines": (
        {"a.py": "def f():\n    pass\n"},
        [("81 lines", {"a.py": "def f():\n" + "    pass\n" * 80})]),
    "no file or folder has a name that says nothing": (
        {"runtime/base/utility.cpp": "\n"},
        [("says nothing", {"runtime/base/string_utils.cpp": "\n"}),
         ("says nothing", {"runtime/common/a.cpp": "\n"})]),
    "the root holds only what the house allows": (
        {"README.md": "\n", "runtime/a.cpp": "\n", ".ci/run": "\n"},
        [("does not belong", {"Makefile": "\n"}), ("does not belong", {".ci/other": "\n"})]),
    "every public function has a contract": (
        {"include/gpurun/gpurun.h": HEADER},
        [("no comment", {"include/gpurun/gpurun.h": HEADER.replace("/** End. Since 0.1. */", "")}),
         ("since which version", {"include/gpurun/gpurun.h": HEADER.replace("End. Since 0.1.", "End.")})]),
    "every test of a theme is in its suite": (
        {"tests/jobs/a.cpp": 'TEST_SUITE_BEGIN("a");\nTEST_CASE("b") {}\nTEST_SUITE_END();\n',
         "tests/device/a.cpp": 'TEST_CASE("a program of its own") {}\n'},
        [("in no suite", {"tests/jobs/a.cpp": 'TEST_SUITE_BEGIN("a");\nTEST_SUITE_END();\nTEST_CASE("b") {}\n'}),
         ("in no suite", {"tests/jobs/a.cpp": 'TEST_CASE("b") {}\nTEST_SUITE_BEGIN("a");\n'})]),
    "sources are formatted": (
        {".clang-format": "BasedOnStyle: LLVM\n", "a.cpp": "int a;\n"},
        [("not formatted", {"a.cpp": "int  a ;\n"})]),
    "every public function has a manual page": (
        MANUAL,
        [("neither a page", {"man/meson.build": "install_man('gpurun_send.3')\n"}),
         ("does not name gpurun_abort", {"man/gpurun_send.3": SEND_PAGE.replace(".Nm gpurun_abort\n", "")}),
         ("does not declare", {"man/gpurun_gone.3": SEND_PAGE})]),
    "a synopsis is what the header declares": (
        MANUAL,
        [("SYNOPSIS shows", {"man/gpurun_send.3": SEND_PAGE.replace('.Fa "int dest"', '.Fa "long dest"')}),
         ("SYNOPSIS shows", {"man/gpurun_send.3": SEND_PAGE.replace(".Ft void", ".Ft int")}),
         ("does not show", {"man/gpurun_send.3": SEND_PAGE.replace(".Fn gpurun_abort void\n", "")})]),
    "a page names every error of its functions": (
        MANUAL,
        [("leaves out GPURUN_ERR_RANK", {"man/gpurun_send.3": SEND_PAGE.replace("It Dv GPURUN_ERR_RANK", "It Dv X")})]),
    "every status is in the table with its number": (
        {"include/gpurun/gpurun.h": HEADER,
         "man/gpurun_error_detail.3": ".It Dv GPURUN_OK Pq 0\n.It Dv GPURUN_ERR_RANK Pq 6\n"},
        [("here 7", {"man/gpurun_error_detail.3": ".It Dv GPURUN_OK Pq 0\n.It Dv GPURUN_ERR_RANK Pq 7\n"}),
         ("missing", {"man/gpurun_error_detail.3": ".It Dv GPURUN_OK Pq 0\n"})]),
    "every setting is documented with its default": (
        {"runtime/base/settings.cpp": SETTINGS, "man/gpurun_environment.7": ENVIRONMENT},
        [("here to 'warn'", {"man/gpurun_environment.7": ENVIRONMENT.replace("Ql error", "Ql warn")}),
         ("no default", {"man/gpurun_environment.7": ENVIRONMENT.replace("Default: unset.\n", "")}),
         ("is not in", {"runtime/base/settings.cpp": SETTINGS + '{"GPURUN_NEW", "1", "new"},\n'}),
         ("no setting", {"runtime/base/settings.cpp": '{"GPURUN_LOG", "error", "says"},\n'})]),
    "only settings are read from the environment": (
        {"runtime/base/settings.cpp": SETTINGS, "launcher/a.cpp": 'getenv("GPURUN_LOG"); getenv("HOME");\n'},
        [("GPURUN_SECRET", {"launcher/a.cpp": 'std::getenv("GPURUN_SECRET");\n'})]),
    "every guarantee names a test": (
        {"man/gpurun.7": MODEL},
        [("names no test", {"man/gpurun.7": MODEL.replace("Shown by", "Trust us")}),
         ("no list", {"man/gpurun.7": ".Sh NAME\n"})]),
    "the manual names tests that exist": (
        {"man/gpurun.7": MODEL, "tests/jobs/a.cpp": 'TEST_CASE("messages keep "\n          "their order") {}\n'},
        [("there is no test", {"tests/jobs/a.cpp": 'TEST_CASE("messages keep") {}\n'}),
         ("there is no test", {"man/gpurun_loans.7": "Shown by\n.Dq loans keep their order .\n"}),
         ("there is no test", {"tests/jobs/a.cpp": "\n", "tests/meson.build": "test('a message @0@'.format(b))\n"})]),
    "manual pages are clean": (
        MANUAL,
        [("WARNING", {"man/gpurun_send.3": SEND_PAGE.replace(".Sh SEE ALSO", ".Pp\n.Sh SEE ALSO")})]),
    "no macro of the manual swallows a word": (
        {"man/gpurun.7": MODEL + ".In a.h\n.It \\&No x\n.It Memory of Fn a No or Fn b\n.Pq with Fa c No above 0\nNo.\n"
                               ".Pq Ql a\n.It Ql \"Ql b\"\n"},
        [("'No' is a macro", {"man/gpurun.7": MODEL.replace("It Order", "It No order of Fn a No or Fn b")}),
         ("'No' is a macro", {"man/gpurun.7": MODEL.replace("It Order", "It Em No order")}),
         ("'An' is a macro", {"man/gpurun.7": MODEL.replace("Dq messages", "Dq An order of messages")}),
         ("'Ql' is in the quotes", {"man/gpurun.7": MODEL + ".It Ql queue.get() , Ql del tensor\n"}),
         ("'In' is a macro", {"man/gpurun.7": MODEL.replace("Sh SEE", "Sh In")})]),
    "a command of the manual is printed as it is written": (
        {"man/gpurun.7": MODEL + ".Dl $ a \\&: b.c | d, e\nA : b.\n"},
        [("before ':'", {"man/gpurun.7": MODEL + ".Dl $ a : b\n"}),
         ("before ')'", {"man/gpurun.7": MODEL + ".Dl (a )\n"})]),
    "a cross reference of the manual leads somewhere": (
        MANUAL,
        [("there is no gpurun_gone(3)", {"man/gpurun_send.3": SEND_PAGE.replace("Xr gpurun 1", "Xr gpurun_gone 3")})]),
    "the debian package has the version of the project": (
        {"meson.build": "project('gpurun',\n    version: '0.2.0')\n", "debian/changelog": "gpurun (0.2.0) unstable\n"},
        [("gpurun (0.2.0)", {"debian/changelog": "gpurun (0.1.0) unstable\n"})]),
    "the index of the manual names what there is": (
        {"man/tasks.txt": "Send\n    gpurun_send.3\n    examples/ring.c\n", "man/gpurun_send.3": "",
         "examples/ring.c": ""},
        [("no man/gpurun_send.3", {"man/gpurun_send.3": None})]),
    "every manual page is installed": (
        MANUAL,
        [("is not in", {"man/gpurun.7": MODEL})]),
}


def violations(check, files):
    with tempfile.TemporaryDirectory() as root:
        for path, text in files.items():
            if text is not None:
                file = Path(root) / path
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(text, encoding="utf-8")
        return [str(violation) for violation in check(Tree(root))]


def failures(sentence, check):
    good, changes = SAMPLES[sentence]
    try:
        for violation in violations(check, good):
            yield f"rejects its good sample: {violation}"
        for number, (wanted, change) in enumerate(changes, 1):
            found = violations(check, {**good, **change})
            if not any(wanted in violation for violation in found):
                yield f"does not see bad sample {number} ('{wanted}'): {found}"
    except Skip as reason:
        print(f"not tried: {sentence}: {reason}")


def main(listed):
    failed = 0
    for sentence, check in CHECKS.items():
        problems = ["has no samples"] if sentence not in SAMPLES else list(failures(sentence, check))
        if sentence not in listed:
            problems.append("is not in tests/repo/meson.build")
        for problem in problems:
            print(f"{sentence}: {problem}")
        failed += len(problems)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
