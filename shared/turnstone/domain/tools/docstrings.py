"""Descriptions of a function and of its parameters in its docstring, in Sphinx's style or in Google's."""

import re
from inspect import cleandoc

FIELD = re.compile(r":(?P<kind>\w+)(?: (?P<name>[^:]+))?: ?(?P<text>.*)")
SECTION = re.compile(r"(?P<title>Args|Arguments|Parameters|Returns|Raises|Yields|Examples?|Notes?):")
ARGUMENT = re.compile(r"\s+\*{0,2}(?P<name>\w+)(?: ?\([^)]*\))?: ?(?P<text>.*)")
OF_ARGUMENTS = ("Args", "Arguments", "Parameters")


def described(docstring: str) -> tuple[str, dict[str, str]]:
    """Return the description, and those of the parameters by name; other sections are left out."""
    about: list[str] = []
    parameters: dict[str, list[str]] = {}
    into: list[str] = about
    section, indent = "", 0
    for line in cleandoc(docstring).splitlines():
        depth = len(line) - len(line.lstrip())
        if found := FIELD.fullmatch(line):
            section, into = "fields", []
            if found["kind"] == "param" and found["name"]:
                into = parameters.setdefault(found["name"].split()[-1], [])
            into.append(found["text"])
        elif (found := SECTION.fullmatch(line)) and depth == 0:
            section, into, indent = found["title"], [], 0
        elif section in OF_ARGUMENTS and (found := ARGUMENT.fullmatch(line)) and depth <= (indent or depth):
            indent = depth
            into = parameters.setdefault(found["name"], [])
            into.append(found["text"])
        else:
            into.append(line)
    texts = {name: " ".join(" ".join(lines).split()) for name, lines in parameters.items()}
    return "\n".join(about).strip(), texts
