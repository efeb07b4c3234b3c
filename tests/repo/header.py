"""The functions that gpurun.h declares, read from its text."""
import re
from dataclasses import dataclass

from tree import line_of

HEADER = "include/gpurun/gpurun.h"


@dataclass(frozen=True)
class Function:
    name: str
    result: str
    parameters: tuple  # as written, spaces made single; empty for (void)
    contract: str      # the comment before it, "" if there is none
    line: int


def split_parameters(text):
    """Splits at the commas that are in no parentheses."""
    parts, depth, current = [], 0, ""
    for character in text:
        depth += (character == "(") - (character == ")")
        if character == "," and depth == 0:
            parts.append(current)
            current = ""
        else:
            current += character
    parts.append(current)
    parts = [re.sub(r"\s+", " ", part).strip() for part in parts]
    return () if parts == ["void"] else tuple(parts)


def functions(tree):
    text = tree.text(HEADER)
    declaration = re.compile(
        r"(?P<contract>/\*\*(?:(?!\*/).)*\*/\s*)?^GPURUN_(?:API|EXPORT)\s+(?P<result>[^;(]*?)(?P<name>gpurun_\w+)\("
        r"(?P<parameters>[^;]*?)\)(?:\s*__attribute__\(\(\w+\)\))?;", re.S | re.M)
    for found in declaration.finditer(text):
        yield Function(found["name"], re.sub(r"\s+", " ", found["result"]).strip(),
                       split_parameters(found["parameters"]), (found["contract"] or "").strip(),
                       line_of(text, found.start("name")))
