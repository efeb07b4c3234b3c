"""Sizes, names and places: what keeps the tree readable."""
import ast
import re

from header import HEADER, functions
from tree import C_SOURCES, Violation, check, line_of

LONGEST_FILE = 600
LONGEST_FUNCTION = 70

# path: why it may be longer than LONGEST_FILE
LONG_FILES = {
    "include/gpurun/gpurun.h": "the whole public API is one header, and half of it is contract",
    "man/gpurun.1": "a command has one page, and mdoc gives each marked-up word a line of its own",
}

EMPTY_NAMES = {"util", "utils", "common", "misc", "manager", "helper", "helpers"}

ROOT = {
    "meson.build", "meson_options.txt", "runtime", "include", "launcher", "tests", "examples", "man", "README.md",
    "LICENSE", "CHANGELOG.md", "CONTRIBUTING.md", ".clang-format", ".clang-tidy", ".editorconfig", ".gitignore", "dev",
    ".ci/run",
}


@check
def no_file_is_longer_than_600_lines(tree):
    for path in tree.paths:
        length = len(tree.text(path).splitlines())
        if length > LONGEST_FILE and path not in LONG_FILES:
            yield Violation(path, LONGEST_FILE + 1, f"{length} lines; split it, or say why not in tests/repo/shape.py")


@check
def no_function_is_longer_than_70_lines(tree):
    for path in tree.paths:
        if path.endswith(C_SOURCES):
            lengths = c_function_lengths(tree.text(path))
        elif path.endswith(".py"):
            lengths = python_function_lengths(tree.text(path))
        else:
            continue
        for line, length in lengths:
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


# ---- how long functions are: by matching braces, which is good enough for a bound

NOT_CODE = re.compile(
    r'//[^\n]*|/\*.*?\*/'
    r'|R"(?P<fence>[^()\\ ]{0,16})\(.*?\)(?P=fence)"'
    r'|"(?:\\.|[^"\\\n])*"'
    r"|(?<![0-9A-Za-z_])'(?:\\.|[^'\\\n])+'"
    r'|^[ \t]*#(?:[^\n]*\\\n)*[^\n]*', re.S | re.M)
SCOPE = re.compile(
    r"^(?:template\s*<.*>\s*)?(?:inline\s+|typedef\s+)?(?:class|struct|union|enum|namespace|extern)\b", re.S)
ENDS_AS_FUNCTION = re.compile(r"\)\s*(?:(?:const|noexcept|override|final|mutable)\s*)*(?:->[^{]*)?$")


def blank(found):
    return re.sub(r"[^\n]", " ", found[0])


def kind_of_block(head):
    """What the brace behind `head` opens, at the level of a file or a class."""
    if SCOPE.match(head) and not ENDS_AS_FUNCTION.search(head):
        return "scope"
    if head.endswith(("=", ",", "return")):
        return "data"
    return "function" if "(" in head or not head else "data"


def c_function_lengths(text):
    """(line, lines) of each function: from its opening to its closing brace."""
    code = NOT_CODE.sub(blank, text)
    open_blocks, head_start = [], 0
    for found in re.finditer(r"[;{}]", code):
        position = found.start()
        if found[0] == "{":
            inside = open_blocks and open_blocks[-1][0] != "scope"
            head = re.sub(r"\b(public|protected|private)\s*:", " ", code[head_start:position]).strip()
            open_blocks.append(("inside" if inside else kind_of_block(head), position))
        elif found[0] == "}" and open_blocks:
            kind, start = open_blocks.pop()
            if kind == "function":
                yield line_of(code, start), code.count("\n", start, position) + 1
        head_start = position + 1


def python_function_lengths(text):
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield node.lineno, node.end_lineno - node.lineno + 1
