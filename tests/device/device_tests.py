"""Lists the tests of a build folder's suite `device`, for machines without Meson: name, seconds, command, by tabs.

    device_tests.py BUILD

The build folder may have been moved since it was made: paths into it, and into its sources, are made to fit.
"""
import json
import shlex
import sys
from pathlib import Path

SUITE = "device"


def main():
    build = Path(sys.argv[1]).resolve()
    info = build / "meson-info"
    made_in = json.loads((info / "meson-info.json").read_text())["directories"]
    source = Path(__file__).resolve().parents[2]
    # The build folder usually lies inside of the sources: it goes first.
    moves = [(made_in["build"], str(build)), (made_in["source"], str(source))]

    def moved(text):
        for old, new in moves:
            if text == old or text.startswith(old + "/"):
                return new + text[len(old):]
        return text

    def setting(name, value):
        paths = [moved(path) for path in value.split(":")]
        if name == "LD_LIBRARY_PATH":
            paths.append(str(build / "carry"))
        return f"{name}={':'.join(paths)}"

    for test in json.loads((info / "intro-tests.json").read_text()):
        if not any(suite.split(":")[-1] == SUITE for suite in test["suite"]):
            continue
        # Commands are relative to the build folder, where Meson runs them.
        folder = moved(test["workdir"] or made_in["build"])
        settings = [setting(name, value) for name, value in test["env"].items()]
        command = shlex.join(["env", *settings, *(moved(word) for word in test["cmd"])])
        print(test["name"], int(test["timeout"]), f"cd {shlex.quote(folder)} && exec {command}", sep="\t")


main()
