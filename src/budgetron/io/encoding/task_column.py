"""Find the column that is the task, by its name.

A wrong task changes what the model learns. So only four names are accepted: task, user, customer and device,
also with an ending such as _id. Other columns whose names say that they identify something, such as shop or account_no,
are identifiers. An identifier whose values repeat is a candidate for the task: a warning names it, and its integers are
not used as numbers.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from budgetron.io.encoding.values import parse_integer

TASKS = ("task", "user", "customer", "device")
_ENDINGS = {"id", "ids", "nr", "no", "num", "number", "nummer", "key", "uuid", "guid", "code"}
_ENTITIES = {  # words for people and things whose rows may form a task
    "account", "advertiser", "agent", "appliance", "author", "benutzer", "branch", "client", "cliente", "company",
    "compte", "driver", "filiale", "gerät", "geraet", "hospital", "host", "household", "konto", "kunde", "kunden",
    "machine", "maschine", "member", "merchant", "nutzer", "patient", "player", "plant", "pupil", "school", "schule",
    "seller", "sender", "sensor", "shop", "station", "store", "student", "subscriber", "supplier", "tenant", "usuario",
    "utilisateur", "vehicle", "vendor", "worker",
}  # fmt: skip


def default_task(names: Iterable[str]) -> str | None:
    """Return the column whose name says that it is the task; None if there is none."""
    words = {name: words_of(name) for name in names}
    for task in TASKS:
        # "user" wins over "user_id", and "task" over both.
        for exact in (True, False):
            for name, words_in_name in words.items():
                with_ending = len(words_in_name) == 2 and words_in_name[0] == task and words_in_name[1] in _ENDINGS
                if words_in_name == [task] or (with_ending and not exact):
                    return name
    return None


def is_identifier(name: str) -> bool:
    """Return whether a column name such as user, order_no or uuid says that the values identify something."""
    words = words_of(name)
    if not words:
        return False
    has_ending = words[-1] in _ENDINGS and (len(words) > 1 or words[-1] in ("id", "uuid", "guid"))
    return words[0] in (*TASKS, *_ENTITIES) or has_ending


def is_candidate(name: str, rows_per_value: Mapping[str, int]) -> bool:
    """Return whether a column may be the task.

    Its name must be that of an identifier. It must have at least two distinct values and, on average, two rows per
    value. None of the values may be a fraction.
    """
    n = sum(rows_per_value.values())
    if not is_identifier(name) or not 2 <= len(rows_per_value) <= n / 2:
        return False
    return not any(_is_fraction(value) for value in rows_per_value)


def words_of(name: str) -> list[str]:
    """Split a name into words: userId, user_id and "User ID" give ["user", "id"]."""
    return [word.lower() for word in re.findall(r"[^\W\d_]+|\d+", re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name))]


def _is_fraction(text: str) -> bool:
    return re.fullmatch(r"[+-]?[0-9]*[.,][0-9]+", text.strip()) is not None and parse_integer(text) is None
