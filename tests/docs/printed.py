"""Compare printed text with a page, allowing for last digits that differ between builds.

Two builds of the core, or two BLAS libraries, add up in different orders, so their results differ in the last digits.
Byte counts differ too, because builds pad vectors differently. The text between the numbers must be equal, and the
numbers must agree:

- Integers, such as counts of examples, must be equal.
- Decimals may differ by 1e-6 relative to the larger one, or by 1e-9 if one of them is 0.
- Percentages, and decimals with two places or more, may differ by one unit of the last place of the text that prints
  more places. They were rounded, and two builds may round a number near the middle differently. With `rounded=True`
  this holds for all decimals.
- Byte counts (a unit follows, such as `KiB`) may differ by 5 %. With `sizes=True` every number is a byte count.
- An integer and a decimal never agree, except as byte counts or with `rounded=True`.
- `within=0.1` is for results that depend on many decisions of a learner. Numbers may then differ by a tenth. A
  difference of 1 between integers, or of one point between percentages, is then always allowed. In a page, a comment
  above a block of examples asks for this:
  `<!-- printed numbers: within a tenth -->`.

The longest number of a column determines the width of the column. So a run of spaces counts as one space, and rulings
of three or more equal characters count as equal. Spaces at the ends of a line, after an opening bracket, and before a
closing bracket or a comma do not count.
"""

from __future__ import annotations

import doctest
import re

NUMBER = re.compile(
    r"""(?: (?<![\w)\]]) [-+−] )?           # a sign, unlike the hyphens in 2024-03-01 and 3-1
        (?<![\w.])                          # the 32 of float32 is part of a word
        (?: \d{1,3} (?:,\d{3})+ (?!\d) | \d+ )
        (?: \.\d* )?
        (?: e[-+]?\d+ )?
        (?![\w])""",
    re.X | re.I,
)
PERCENT = re.compile(r"\s?%")
BYTES = re.compile(r"\s?(?:bytes|B|[kKMGT]i?B)\b")
SIZES = doctest.register_optionflag("BUDGETRON_SIZES")
TENTH = doctest.register_optionflag("BUDGETRON_TENTH")
MARK = "<!-- printed numbers: within a tenth -->\n"


def disagreement(
    expected: str, actual: str, *, rounded: bool = False, sizes: bool = False, within: float = 0.0
) -> str | None:
    """The first difference in the text between the numbers, otherwise in the numbers; None if the texts agree."""
    texts, printed = _between(expected), _between(actual)
    if texts != printed:
        pairs = zip([*texts, "the end"], [*printed, "the end"], strict=False)
        return "text: expected {!r}, got {!r}".format(*next((a, b) for a, b in pairs if a != b))
    for written, came in zip(NUMBER.finditer(expected), NUMBER.finditer(actual), strict=True):
        after = expected[written.end() : written.end() + 8]
        is_percent, is_size = bool(PERCENT.match(after)), sizes or bool(BYTES.match(after))
        if not _close(written[0], came[0], is_percent, is_size, rounded, within):
            return f"number: expected {written[0]}, got {came[0]}, before {after!r}"
    return None


def _close(written: str, came: str, is_percent: bool, is_size: bool, rounded: bool, within: float) -> bool:
    wanted, actual = _value(written), _value(came)
    decimals = _is_decimal(written) + _is_decimal(came)
    if decimals == 1 and not (rounded or is_size):
        return False  # 1 and 1.0 are printed by different types, not by different builds
    if decimals == 0:
        allowed = max(within, 0.05 if is_size else 0.0) * abs(wanted)
        allowed = max(allowed, 1.0 if is_percent or within else 0.0)
    else:
        allowed = 1e-6 * max(abs(wanted), abs(actual)) if wanted and actual else 1e-9
        place = min(_place(written), _place(came))
        if rounded or is_percent or place < 0.1:
            allowed = max(allowed, 1.01 * place)  # 0.58 − 0.57 is a little more than 0.01
        if is_size:
            allowed = max(allowed, 0.05 * abs(wanted))
        if within:
            allowed = max(allowed, within * abs(wanted), 1.01 if is_percent else 0.0)
    return abs(actual - wanted) <= allowed


def _between(text: str) -> list[str]:
    """The texts between the numbers, without differences in spaces and rulings (see above)."""
    return [
        re.sub(r"([\[(]) | (?=[\]),])", r"\1", re.sub(r"([-─━═])\1{2,}", r"\1\1\1", re.sub(r"[ \t]+", " ", part)))
        for part in NUMBER.split("\n".join(line.strip() for line in text.strip().splitlines()))
    ]


def _value(number: str) -> float:
    return float(number.replace(",", "").replace("−", "-"))


def _is_decimal(number: str) -> bool:
    return "." in number or "e" in number.lower()


def _place(number: str) -> float:
    """The value of one unit of the last printed place: 0.01 for 3.25, 1e-7 for 1.5e-06."""
    digits, _, exponent = number.lower().partition("e")
    return 10.0 ** (int(exponent or 0) - len(digits.partition(".")[2]))


class OutputChecker(doctest.OutputChecker):
    """For doctests. An example with +ELLIPSIS is compared as doctest does, character by character."""

    def check_output(self, want: str, got: str, optionflags: int) -> bool:
        if super().check_output(want, got, optionflags):
            return True
        if optionflags & doctest.ELLIPSIS:
            return False
        within = 0.1 if optionflags & TENTH else 0.0
        return disagreement(want, got, sizes=bool(optionflags & SIZES), within=within) is None


def run(test: doctest.DocTest) -> doctest.TestResults:
    """Run the examples of a test.

    The printed numbers of an example are byte counts if its code has the word "bytes" or "st_size" and the expected
    output has no unit.
    """
    for example in test.examples:
        if re.search(r"bytes|st_size", example.source) and not BYTES.search(example.want):
            example.options[SIZES] = True
    return doctest.DocTestRunner(OutputChecker()).run(test)
