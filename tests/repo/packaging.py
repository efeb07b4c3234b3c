"""What packages are made of says the same as the rest of the tree."""
import re

from tree import Violation, check

PROJECT = "meson.build"
DEBIAN = "debian/changelog"
TASKS = "man/tasks.txt"


@check
def the_debian_package_has_the_version_of_the_project(tree):
    version = re.search(r"version: '([\d.]+)'", tree.text(PROJECT))
    packaged = re.match(r"gpurun \(([\d.]+)(?:-\d+)?\)", tree.text(DEBIAN))
    if not version or not packaged or version[1] != packaged[1]:
        wanted = version[1] if version else "?"
        yield Violation(DEBIAN, 1, f"does not begin with 'gpurun ({wanted})', as {PROJECT} says")


@check
def the_index_of_the_manual_names_what_there_is(tree):
    for number, line in tree.lines(TASKS):
        name = line.strip()
        path = name if name.startswith("examples/") else f"man/{name}"
        if line.startswith(" ") and path not in tree.paths:
            yield Violation(TASKS, number, f"there is no {path}")
