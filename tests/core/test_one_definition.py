"""Every class of the core has a name of its own.

The core is one namespace. Two classes of one name in headers that no file includes together compile and link, but the
linker then keeps only one of each pair of member functions, with the layout of one of the classes.
"""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path

CORE = Path(__file__).parents[2] / "src" / "core"
DEFINITION = re.compile(r"(?:template <.*> )?(?:class|struct|union|enum(?: class)?) (\w+)(?!\w|::)[^;]*$")


def classes_of(file):
    """Yield the names of the classes in the namespace of the core. Nested ones are indented."""
    is_local = False  # in an unnamed namespace, whose classes exist in this file only
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
