"""The manual is complete and true: it covers the header, the settings and the tests that prove its guarantees."""
import re
import shutil
import subprocess
from pathlib import PurePath

from header import HEADER, functions, split_parameters
from tree import Skip, Violation, check, line_of

SETTINGS = "runtime/base/settings.cpp"
ENVIRONMENT = "man/gpurun_environment.7"
MODEL = "man/gpurun.7"
INSTALL = "man/meson.build"
STATUSES = "man/gpurun_error_detail.3"


def pages(tree, ends=(".1", ".3", ".7")):
    return tree.under("man/", ends=ends)


def aliases(tree):
    """Name of a function -> name of the page that it shares."""
    return dict(re.findall(r"^\s*'(gpurun_\w+)': '(gpurun_\w+)',", tree.text(INSTALL), re.M))


def page_of(tree, name):
    path = f"man/{aliases(tree).get(name, name)}.3"
    return path if path in tree.paths else None


def section(text, name):
    found = re.search(rf"^\.Sh {name}\n(.*?)(?=^\.Sh |\Z)", text, re.S | re.M)
    return found[1] if found else ""


# ---------------------------------------------------------------------------------------------- functions


@check
def every_public_function_has_a_manual_page(tree):
    for function in functions(tree):
        path = page_of(tree, function.name)
        if path is None:
            yield Violation(HEADER, function.line, f"{function.name}() has neither a page nor an alias in {INSTALL}")
        elif not re.search(rf"^\.Nm {function.name}\b", section(tree.text(path), "NAME"), re.M):
            yield Violation(path, 1, f"NAME does not name {function.name}")
    declared = {function.name for function in functions(tree)}
    for path in pages(tree, (".3",)):
        if PurePath(path).stem not in declared:
            yield Violation(path, 1, "describes a function that the header does not declare")


def synopsis(text):
    """Name -> (result, parameters) of each function in SYNOPSIS."""
    found = {}
    result = ""
    part = section(text, "SYNOPSIS")
    part = re.sub(r"^\.Fc\n", "", re.sub(r"\n\.Fa ", " ", part.replace(".Fo ", ".Fn ")), flags=re.M)
    for line in part.splitlines():
        if line.startswith(".Ft "):
            result = line[4:].strip()
        elif line.startswith(".Fn "):
            name, *rest = re.findall(r'"([^"]*)"|(\S+)', line[4:])
            parameters = tuple(quoted or word for quoted, word in rest)
            found[name[1]] = (result, () if parameters == ("void",) else parameters)
    return found


@check
def a_synopsis_is_what_the_header_declares(tree):
    for function in functions(tree):
        path = page_of(tree, function.name)
        if path is None:
            continue
        said = synopsis(tree.text(path)).get(function.name)
        if said is None:
            yield Violation(path, 1, f"SYNOPSIS does not show {function.name}()")
        elif said != (function.result, function.parameters):
            yield Violation(path, 1, f"SYNOPSIS shows {function.name} as {said}, {HEADER}:{function.line} declares "
                                     f"{(function.result, function.parameters)}")


@check
def a_page_names_every_error_of_its_functions(tree):
    for function in functions(tree):
        path = page_of(tree, function.name)
        if path is None:
            continue
        values = section(tree.text(path), "RETURN VALUES")
        for status in sorted(set(re.findall(r"GPURUN_ERR_[A-Z_]+[A-Z]", function.contract))):
            if "@retval" in function.contract and not re.search(rf"\b{status}\b", values):
                yield Violation(path, 1, f"RETURN VALUES leaves out {status} of {function.name}()")


@check
def every_status_is_in_the_table_with_its_number(tree):
    table = dict(re.findall(r"^\.It Dv (GPURUN_\w+) Pq (\d+)$", tree.text(STATUSES), re.M))
    text = tree.text(HEADER)
    for found in re.finditer(r"^\s+(GPURUN_(?:OK|ERR_\w+)) = (\d+)", text, re.M):
        if table.get(found[1]) != found[2]:
            yield Violation(STATUSES, 1, f"{found[1]} is {found[2]} in {HEADER}:{line_of(text, found.start(1))}, "
                                         f"here {table.get(found[1], 'it is missing')}")


# ----------------------------------------------------------------------------------------------- settings


def settings(tree):
    """(name, default, line) of each row of the table."""
    text = tree.text(SETTINGS)
    for found in re.finditer(r'\{"([A-Z]+_\w+)",\s*"([^"]*)",\s*"', text):
        yield found[1], found[2], line_of(text, found.start(1))


@check
def every_setting_is_documented_with_its_default(tree):
    text = tree.text(ENVIRONMENT)
    documented = {}
    for found in re.finditer(r"^\.It Ev ([A-Z]+_\w+)\n(.*?)(?=^\.It |^\.El)", text, re.S | re.M):
        default = re.search(r"^Default:(?: (unset)\.|\n\.Ql (\S+) \.)$", found[2], re.M)
        documented[found[1]] = ((default[2] or "") if default else None, line_of(text, found.start(1)))
    known = set()
    for name, default, line in settings(tree):
        known.add(name)
        if name not in documented:
            yield Violation(SETTINGS, line, f"{name} is not in {ENVIRONMENT}")
        elif documented[name][0] != default:
            said = documented[name][0]
            yield Violation(ENVIRONMENT, documented[name][1],
                            f"{name} defaults to '{default}' ({SETTINGS}:{line}), "
                            + ("here no default is named" if said is None else f"here to '{said}'"))
    for name in sorted(documented.keys() - known):
        yield Violation(ENVIRONMENT, documented[name][1], f"{name} is no setting")


@check
def only_settings_are_read_from_the_environment(tree):
    known = {name for name, _, _ in settings(tree)}
    for path in tree.under("runtime/", "launcher/", ends=(".cpp", ".hpp")):
        for number, line in tree.lines(path):
            for name in re.findall(r'getenv\("(GPURUN_\w+)"', line):
                if name not in known:
                    yield Violation(path, number, f"{name} is not in the table of {SETTINGS}")


# --------------------------------------------------------------------------------------------- guarantees


def test_names(tree):
    """A pattern for the names of tests: TEST_CASE("...") and the like; test('...') of Meson, whose @0@ is any text."""
    names = set()
    for path in tree.under("tests/", "examples/"):
        if path.endswith((".cpp", ".hpp", ".cu", ".c")):
            for found in re.finditer(r'\b[A-Z_]*TEST[A-Z_]*\(\s*((?:"(?:\\.|[^"\\])*"\s*)+)', tree.text(path)):
                names.add("".join(re.findall(r'"((?:\\.|[^"\\])*)"', found[1])))
        elif path.endswith("meson.build"):
            names.update(re.findall(r"\btest\(\s*'([^']+)'", tree.text(path)))
            names.update(re.findall(r"^\s*'([^']* [^']*)'(?:,|:)", tree.text(path), re.M))
    for name in list(names):
        first, _, variant = name.partition(", ")
        if "@" in variant and re.search("[a-z]{4}", first):
            names.add(first)
    parts = [map(re.escape, re.split(r"@\d@", name)) for name in names]
    return re.compile("|".join(".+".join(part) for part in parts))


def tests_shown(text):
    """(offset of what names them, [test])"""
    for shown in re.finditer(r"^Shown by(?: the tests)?:?\n((?:\.Dq .*\n|and\n)*)", text, re.M):
        tests = re.findall(r"^\.Dq (.*)$", shown[1], re.M)
        yield shown.start(), [re.sub(r"( Pq .*)?( [.,;])?$", "", name) for name in tests]


@check
def every_guarantee_names_a_test(tree):
    text = tree.text(MODEL)
    start = text.find(".Sh GUARANTEES\n")
    part = section(text, "GUARANTEES")
    items = list(re.finditer(r"^\.It (.*)\n((?:(?!\.It ).*\n)*)", part, re.M))
    if not items:
        yield Violation(MODEL, 1, "has no list of guarantees")
    for item in items:
        if not any(tests for _, tests in tests_shown(item[2])):
            line = line_of(text, start) + line_of(part, item.start())
            yield Violation(MODEL, line, f"guarantee '{item[1]}' names no test (Shown by: .Dq NAME)")


@check
def the_manual_names_tests_that_exist(tree):
    names = test_names(tree)
    for path in pages(tree):
        for at, tests in tests_shown(tree.text(path)):
            for name in tests:
                if not names.fullmatch(name):
                    yield Violation(path, line_of(tree.text(path), at), f"there is no test '{name}'")


# -------------------------------------------------------------------------------------------------- pages


@check
def manual_pages_are_clean(tree):
    if not shutil.which("mandoc"):
        raise Skip("needs mandoc")
    for path in pages(tree):
        said = subprocess.run(["mandoc", "-T", "lint", path], cwd=tree.root, capture_output=True, text=True,
                              check=False).stdout
        for line, text in re.findall(r"^mandoc: \S+?:(\d+):\d+: (.*)$", said, re.M):
            if "referenced manual not found" not in text:  # what is installed here; the next check follows ours
                yield Violation(path, int(line), text)


# mdoc takes these words of a macro's line for macros, and drops them: ".It No deadlock" prints "deadlock".
ENGLISH_MACROS = {"Ad", "An", "At", "Do", "En", "Es", "In", "Ms", "No", "So"}
# "No" is meant where it ends the arguments of one of these: ".It Memory of Fn malloc No or Fn calloc".
MARK_UP = {"Ar", "Cm", "Dv", "Em", "Er", "Ev", "Fa", "Fl", "Fn", "Ft", "Ic", "Nm", "Pa", "Sx", "Sy", "Va", "Vt", "Xr"}
# Each quotes the rest of its line: ".It Ql a , Ql b" prints "b" in the quotes of "a".
QUOTES = {"Dq", "Ql", "Qq", "Sq"}


def swallowed_words(line):
    if not re.match(r"\.[A-Z]", line):
        return
    words = re.findall(r'"[^"]*"|\S+', line[1:])  # what is quoted is no macro
    for at, word in enumerate(words[1:], 1):
        ends_arguments = word == "No" and MARK_UP & set(words[:at - 1])
        if word in ENGLISH_MACROS and not ends_arguments:
            yield word


def nested_quotes(line):
    if re.match(r"\.[A-Z]", line):
        yield from [word for word in re.findall(r'"[^"]*"|\S+', line[1:]) if word in QUOTES][1:]


@check
def no_macro_of_the_manual_swallows_a_word(tree):
    for path in pages(tree):
        for number, line in tree.lines(path):
            for word in swallowed_words(line):
                yield Violation(path, number, f"'{word}' is a macro of mdoc and is not printed; write \\&{word}")
            for word in nested_quotes(line):
                yield Violation(path, number, f"'{word}' is in the quotes of one before it; write two lines")


@check
def a_command_of_the_manual_is_printed_as_it_is_written(tree):
    # mdoc takes punctuation that stands alone for the end of the word before: "./a : -n 1" prints "./a: -n 1".
    for path in pages(tree):
        for number, line in tree.lines(path):
            for mark in re.findall(r"(?<= )[.,:;?!)\]](?= |$)", line) if line.startswith(".Dl ") else []:
                yield Violation(path, number, f"mdoc drops the space before '{mark}'; write \\&{mark}")


@check
def a_cross_reference_of_the_manual_leads_somewhere(tree):
    there = {(PurePath(path).stem, path[-1]) for path in pages(tree)} | {(name, "3") for name in aliases(tree)}
    there.add(("gpurun", "1"))
    for path in pages(tree):
        for number, line in tree.lines(path):
            found = re.match(r"\.Xr (gpurun[\w-]*) (\d)", line)
            if found and (found[1], found[2]) not in there:
                yield Violation(path, number, f"there is no {found[1]}({found[2]})")


@check
def every_manual_page_is_installed(tree):
    installed = set(re.findall(r"'(gpurun[\w.-]*\.\d)'", tree.text(INSTALL)))
    for path in pages(tree):
        if PurePath(path).name not in installed:
            yield Violation(path, 1, f"is not in {INSTALL}")
