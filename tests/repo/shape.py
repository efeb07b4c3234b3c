"""Sizes, names and places: what keeps the tree readable."""
import ast
import re

from header import HEADER, functions
from tree import Violation, check

LONGEST_FILE = 600
LONGEST_FUNCTION = 70

# path: why it may be longer than LONGEST_FILE
LONG_FILES = {
    "include/gpurun/gpurun.h": "the whole public API is one header, and half of it is contract",
    "man/gpurun.7": "the model and its guarantees are one page, and each guarantee names its tests, a line each",
    "man/gpurun.1": "a command has one page, and mdoc gives each marked-up word a line of its own",
    "man/gpurun.7": "the model and its guarantees are one page; as man/gpurun.1",
    "runtime/python/gpurun/_core.pyi": "the types of an extension module are in one file, which has its name",
}

EMPTY_NAMES = {"util", "utils", "common", "misc", "manager", "helper", "helpers"}

ROOT = {
    "meson.build", "meson_options.txt", "runtime", "include", "launcher", "tests", "examples", "man", "README.md",
    "LICENSE", "CHANGELOG.md", "CONTRIBUTING.md", ".clang-format", ".clang-tidy", ".editorconfig", ".gitignore", "dev",
    ".ci/run", "debian",
    "pyproject.toml",
}


@check
def no_file_is_longer_than_600_lines(tree):
    for path in tree.paths:
        length = len(tree.text(path).splitlines())
        if length > LONGEST_FILE and path not in LONG_FILES:
            yield Violation(path, LONGEST_FILE + 1, f"{length} lines; split it, or say why not in tests/repo/shape.py")


@check
def no_function_of_a_script_is_longer_than_70_lines(tree):
    # Of C and C++, clang-tidy says so (./dev lint).
    for path in tree.paths:
        for line, length in python_function_lengths(tree.text(path)) if path.endswith(".py") else []:
            if length > LONGEST_FUNCTION:
                yield Violation(path, line, f"a function of {length} lines; move computation into leaves")


@check
def no_file_or_folder_has_a_name_that_says_nothing(tree):
    for path in tree.paths:
        for part in path.split("/"):
            if EMPTY_NAMES & set(re.split(r"[^a-z]+", part.lower())):
                yield Violation(path, 1, f"'{part}' says nothing about what is in it")


@check
def the_root_holds_only_what_the_house_allows(tree):
    for path in tree.paths:
        if path.split("/")[0] not in ROOT and path not in ROOT:
            yield Violation(path, 1, "does not belong at the root of the repository")


@check
def every_public_function_has_a_contract(tree):
    for function in functions(tree):
        if not function.contract:
            yield Violation(HEADER, function.line, f"{function.name}() has no comment that says what it promises")
        elif "Since " not in function.contract:
            yield Violation(HEADER, function.line, f"{function.name}() does not say since which version it exists")


@check
def every_test_of_a_theme_is_in_its_suite(tree):
    # Tests of jobs are run by suite: one that is in none never runs.
    for path in tree.paths:
        if not path.endswith(".cpp") or "TEST_SUITE_BEGIN" not in tree.text(path):
            continue
        inside = False
        for number, line in enumerate(tree.text(path).splitlines(), 1):
            if line.startswith(("TEST_SUITE_BEGIN", "TEST_SUITE_END")):
                inside = line.startswith("TEST_SUITE_BEGIN")
            elif line.startswith("TEST_CASE") and not inside:
                yield Violation(path, number, "a test in no suite; TEST_SUITE_BEGIN() goes before it")


def python_function_lengths(text):
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node.lineno, node.end_lineno - node.lineno + 1
