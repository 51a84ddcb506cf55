"""Every class of the core has a name of its own.

The core is one namespace. If two headers define different classes with the same name, and no file includes both
headers, the core still compiles and links. But where both classes have a member function of the same name, the linker
keeps only one of these functions. Objects of the other class then run code that was compiled for another layout.
"""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path

CORE = Path(__file__).parents[2] / "src" / "core"
DEFINITION = re.compile(r"(?:template <.*> )?(?:class|struct|union|enum(?: class)?) (\w+)(?!\w|::)[^;]*$")


def classes_of(file):
    """Yield the names of the classes in the namespace of the core. Nested classes are indented and do not match."""
    is_local = False  # whether the line is in an unnamed namespace, whose classes exist in this file only
    for line in file.read_text(encoding="utf-8").splitlines():
        if line == "namespace {":
            is_local = True
        elif line == "}  // namespace":
            is_local = False
        elif not is_local and (definition := DEFINITION.match(line)):
            yield definition[1]


def test_no_two_files_define_a_class_of_the_same_name():
    files_of = defaultdict(list)
    for file in sorted(CORE.rglob("*.[ch]pp")):
        for name in classes_of(file):
            files_of[name].append(str(file.relative_to(CORE)))
    assert len(files_of) > 50, "the definitions are not found any more"
    assert {name: files for name, files in files_of.items() if len(files) > 1} == {}
