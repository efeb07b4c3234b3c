"""Programs that were built against an earlier release keep working: the binary interface only grows.

abi_test.py SOURCE-ROOT BUILD-ROOT C-COMPILER LIBRARY [--record]

What a release promises is in abi-MAJOR.MINOR.txt beside this file: a line for each symbol, function, struct, field,
enumerator and constant. A line that is gone or changed breaks programs. A new line has to be recorded, so that it is
kept from then on: ./dev abi does that. It removes lines only while their version is "Unreleased" in CHANGELOG.md. After
the release, a change that breaks the interface needs another soname and a new record.
"""
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

HERE = Path(__file__).parent
ATTRIBUTES = ("GPURUN_API", "GPURUN_EXPORT", "GPURUN_NODISCARD")  # of declarations: of no value to programs
HEAD = """# What programs built against gpurun {} rely on. abi_test.py compares; ./dev abi writes it.
"""


def output(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout


# ---- what the header and the library say -------------------------------------------------------------------------


def without_comments(text):
    return re.sub(r"//[^\n]*|/\*.*?\*/", " ", text, flags=re.S)


def one_line(text):
    return re.sub(r"\s+", " ", text).strip()


def without_name(parameter):
    """"int dest" -> "int": a parameter may change its name."""
    return re.sub(r"(?<=[\s*])\w+$", "", parameter).strip() if " " in parameter else parameter


def parameters(text):
    depth, parts = 0, [""]
    for character in one_line(text):
        depth += (character == "(") - (character == ")")
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return ", ".join(without_name(part.strip()) for part in parts)


def functions(header):
    declaration = r"^GPURUN_(?:API|EXPORT) ([^;(]*?)(gpurun_\w+)\(([^;]*?)\)(?:\s*__attribute__\(\(\w+\)\))*;"
    for found in re.finditer(declaration, header, re.M):
        yield f"function {one_line(found[1] + found[2])}({parameters(found[3])})"


def constants(header):
    for found in re.finditer(r"^#define (GPURUN_\w+) +(\S.*)$", header, re.M):
        if found[1] not in ATTRIBUTES:
            yield f"constant {found[1]} {one_line(found[2])}"


def structs(header):
    """(name, fields) of each."""
    for found in re.finditer(r"typedef struct (\w+) \{(.*?)\} \1;", header, re.S):
        yield found[1], re.findall(r"(\w+)(?:\[\w+\])?;", found[2])


def enums(header):
    for found in re.finditer(r"typedef enum (\w+) \{(.*?)\} \1;", header, re.S):
        yield found[1], re.findall(r"(\w+) =", found[2])


def layouts(header, compiler, include_folders):
    """What only a compiler knows: it prints a line for each."""
    statements = []
    for name, fields in structs(header):
        statements.append(f'printf("struct {name} %zu bytes\\n", sizeof({name}));')
        for field in fields:
            statements.append(f'printf("field {name}.{field} at %zu, %zu bytes\\n", offsetof({name}, {field}), '
                              f'sizeof((({name} *)0)->{field}));')
    for name, values in enums(header):
        statements.append(f'printf("enum {name} %zu bytes\\n", sizeof({name}));')
        statements += [f'printf("value {value} %d\\n", (int){value});' for value in values]
    text = "#include <gpurun/gpurun.h>\n#include <stdio.h>\nint main(void) {\n" + "\n".join(statements) + "\n}\n"
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "layouts.c"
        source.write_text(text, encoding="ascii")
        program = Path(folder) / "layouts"
        output(compiler, *(f"-I{path}" for path in include_folders), source, "-o", program)
        return output(program).splitlines()


def symbols(library):
    for line in output("nm", "-D", "--defined-only", "--with-symbol-versions", library).splitlines():
        kind, name = line.split()[1:3]
        if kind != "A":  # the version itself
            yield f"symbol {name}"
    yield "soname " + re.search(r"SONAME.*\[(.*)\]", output("readelf", "-d", library))[1]


# ---- what was promised -------------------------------------------------------------------------------------------


def compare(promised, now):
    """(lines that are gone, lines that are new). A struct that begins with its size may grow."""
    gone, new = promised - now, now - promised
    for line in list(gone):
        found = re.fullmatch(r"struct (\w+) (\d+) bytes", line)
        grown = found and next((int(other[1]) for other in (re.fullmatch(rf"struct {found[1]} (\d+) bytes", line)
                                                            for line in new) if other), 0)
        if found and grown > int(found[2]) and f"field {found[1]}.size at 0, 8 bytes" in promised:
            gone.remove(line)
    return gone, new


def read(path):
    return {line for line in path.read_text(encoding="ascii").splitlines() if not line.startswith("#")}


class Comparison(unittest.TestCase):
    promised = {"symbol gpurun_send@@GPURUN_0.1", "value GPURUN_OK 0", "struct gpurun_info 16 bytes",
                "field gpurun_info.size at 0, 8 bytes", "struct gpurun_comm 8 bytes"}

    def changed(self, old, new):
        return compare(self.promised, {new if line == old else line for line in self.promised} | {new})

    def test_what_is_gone_and_what_is_new_are_told_apart(self):
        self.assertEqual(compare(self.promised, self.promised), (set(), set()))
        more = {"value GPURUN_NEW 1"}
        self.assertEqual(compare(self.promised, self.promised | more), (set(), more))
        self.assertEqual(compare(self.promised, self.promised - {"value GPURUN_OK 0"}), ({"value GPURUN_OK 0"}, set()))

    def test_a_symbol_with_another_version_is_gone(self):
        gone, _ = self.changed("symbol gpurun_send@@GPURUN_0.1", "symbol gpurun_send@@GPURUN_0.2")
        self.assertEqual(gone, {"symbol gpurun_send@@GPURUN_0.1"})

    def test_only_a_struct_that_begins_with_its_size_may_grow(self):
        self.assertEqual(self.changed("struct gpurun_info 16 bytes", "struct gpurun_info 24 bytes")[0], set())
        self.assertEqual(len(self.changed("struct gpurun_info 16 bytes", "struct gpurun_info 8 bytes")[0]), 1)
        self.assertEqual(len(self.changed("struct gpurun_comm 8 bytes", "struct gpurun_comm 16 bytes")[0]), 1)

    def test_names_of_parameters_do_not_count(self):
        header = "GPURUN_API gpurun_status gpurun_x(const void *from,\n    int to, void (*f)(void *a), gpurun_comm);\n"
        self.assertEqual(list(functions(header)),
                         ["function gpurun_status gpurun_x(const void *, int, void (*f)(void *a), gpurun_comm)"])


class Interface(unittest.TestCase):
    now = set()
    record = Path()

    def test_nothing_that_a_release_has_promised_is_gone_or_different(self):
        for path in sorted(HERE.glob("abi-*.txt")):
            gone, _ = compare(read(path), self.now)
            self.assertEqual(sorted(gone), [],
                             f"\n{path.name} promises this to programs that were built before. If that version is not "
                             f"released yet, run ./dev abi. Otherwise the library needs another soname "
                             f"(runtime/api/meson.build), and a new record in place of this one.")

    def test_everything_is_recorded(self):
        self.assertTrue(self.record.exists(), f"there is no {self.record.name}: run ./dev abi")
        _, new = compare(read(self.record), self.now)
        self.assertEqual(sorted(new), [], f"\nnew, and not yet in {self.record.name}: run ./dev abi, and commit the record")


def write_record(source, version, path, now):
    lost = sorted(compare(read(path), now)[0]) if path.exists() else []
    if lost and f"## [{version}] - Unreleased" not in (source / "CHANGELOG.md").read_text(encoding="utf-8"):
        sys.exit(f"{version} is released, and these are gone or different:\n" + "\n".join(lost))
    path.write_text(HEAD.format(path.stem[4:]) + "".join(f"{line}\n" for line in sorted(now)), encoding="ascii")
    print(f"{path}: {len(now)} lines" + "".join(f"\n  no longer: {line}" for line in lost))


def main(source, build, compiler, library, *options):
    header = without_comments((source / "include/gpurun/gpurun.h").read_text(encoding="utf-8"))
    now = {*functions(header), *constants(header), *symbols(library),
           *layouts(header, compiler, (source / "include", build / "include"))}
    version = re.search(r'GPURUN_VERSION "(.*)"', (build / "include/gpurun/version.h").read_text(encoding="ascii"))[1]
    record = HERE / f"abi-{'.'.join(version.split('.')[:2])}.txt"
    if options == ("--record",):
        write_record(source, version, record, now)
        return
    Interface.now, Interface.record = now, record
    unittest.main(argv=sys.argv[:1], verbosity=2)


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:3]), *sys.argv[3:])
