"""Texts that the comparison of printed text accepts and rejects."""

from __future__ import annotations

import doctest
from typing import Any

import printed
import pytest

ACCEPTED: list[tuple[str, str, dict[str, Any]]] = [
    ("1.0", "0.9999999999999998", {}),
    ("(1.0, -1.0)", "(1.0000000000000002, -0.9999999999999999)", {}),
    ("0.333333", "0.333334", {}),
    ("0.9", "0.91", {}),  # two numbers that were rounded to two places: 0.90 prints as 0.9
    ("array([0.13, 0.07])", "array([0.12, 0.07])", {}),
    ("array([[1.   , 0.447]])", "array([[0.9999999999999999, 0.4470000000000001]])", {}),
    ("1.0", "0.99999", {}),  # two numbers that were rounded to five places
    ("0.0", "1e-06", {}),
    ("gamma 1", "gamma 0.999", {"rounded": True}),
    ("100 KiB", "99.5 KiB", {}),
    ("[0.00 1.25]", "[-0.00  1.25]", {}),
    ("0.0", "-0.0", {}),
    ("0.0", "5.551115123125783e-17", {}),
    ("1.5e-06", "1.6e-06", {}),
    ("12345678.9", "12345679.1", {}),
    ("-1.25", "−1.25", {}),
    ("nan inf", "nan inf", {}),
    ("18.9% wrong", "18.8% wrong", {}),
    ("18.9 %", "19.0 %", {}),
    ("11% wrong", "12% wrong", {}),
    ("99.9 % of all", "100.0 % of all", {}),
    ("341 KiB", "352 KiB", {}),
    ("64.5 KiB", "65.9 KiB", {}),
    ("at least 14427 bytes", "at least 14,939 bytes", {}),
    ("holds 224", "holds 230", {"sizes": True}),
    ("a   9.9\nbb 1.2", "a   10.0\nbb  1.2", {"rounded": True}),  # a wider number moves a column
    ("name   9.9\n----------", "name   10.0\n-----------", {"rounded": True}),
    ("log loss 0.416  ", "log loss 0.417", {}),
    ("1,203 mistakes", "1,250 mistakes", {"within": 0.1}),
    ("2 mistakes", "3 mistakes", {"within": 0.1}),
    ("20.4 %", "21.3 %", {"within": 0.1}),
]
REJECTED: list[tuple[str, str, dict[str, Any]]] = [
    ("1.0", "0.99998", {}),
    ("0.5", "0.6", {}),  # a number with one decimal is more often a setting than a rounded result
    ("0.5", "0.52", {}),
    ("0.13", "0.15", {}),
    ("0.333333", "0.333336", {}),
    ("0.0", "2e-06", {}),
    ("0.25", "-0.25", {}),
    ("1.5e-06", "1.5e-05", {}),
    ("1.5", "nan", {}),
    ("nan", "0.0", {}),
    ("1.0", "1", {}),
    ("4059 seen", "4058 seen", {}),
    ("4,059 rows", "40,59 rows", {}),
    ("18.9 %", "19.1 %", {}),
    ("11% wrong", "13% wrong", {}),
    ("341 KiB", "341 MiB", {}),
    ("341 KiB", "300 KiB", {}),
    ("64KiB", "65KiB", {}),  # digits that touch letters are text: this is a setting, not a measured size
    ("holds 224", "holds 230", {}),
    ("float32", "float64", {}),
    ("2024-03-01", "2024-03-02", {}),
    ("worker-2", "worker-3", {}),
    ("[1, 2]", "[1, 2, 3]", {}),
    ("[1, 2, 3]", "[1, 2]", {}),
    ("a 1", "b 1", {}),
    ("1 a\n2 b", "1 a 2 b", {}),
    ("1,203 mistakes", "1,400 mistakes", {"within": 0.1}),
    ("4.4 %", "5.6 %", {"within": 0.1}),
    ("20.4 %", "23.1 %", {"within": 0.1}),
]


@pytest.mark.parametrize(("expected", "actual", "options"), ACCEPTED)
def test_printed_texts_whose_numbers_agree_are_accepted(expected: str, actual: str, options: dict[str, Any]) -> None:
    assert printed.disagreement(expected, actual, **options) is None
    assert printed.disagreement(actual, expected, **options) is None


@pytest.mark.parametrize(("expected", "actual", "options"), REJECTED)
def test_printed_texts_that_disagree_are_rejected(expected: str, actual: str, options: dict[str, Any]) -> None:
    assert printed.disagreement(expected, actual, **options) is not None
    assert printed.disagreement(actual, expected, **options) is not None


@pytest.mark.parametrize(
    ("example", "passes"),
    [
        (">>> 1 - 1e-15\n1.0\n", True),
        (">>> 0.7\n0.6\n", False),
        (">>> print('x', 0.25)\nx 0.2...\n", False),
        (">>> print('got 5 rows')  # doctest: +ELLIPSIS\ngot ... rows\n", True),
        (">>> print('got 5.0 rows of 3')  # doctest: +ELLIPSIS\ngot ... rows of 4\n", False),
        (">>> memory_bytes = 1030\n>>> memory_bytes\n1000\n", True),
        (">>> memory_bytes = 1100\n>>> memory_bytes\n1000\n", False),
        (">>> rows = 1030\n>>> rows\n1000\n", False),
        (">>> memory_bytes = 5\n>>> print(103, memory_bytes, 'bytes')\n100 5 bytes\n", False),
    ],
)
def test_doctests_compare_numbers_and_ellipses(example: str, passes: bool) -> None:
    test = doctest.DocTestParser().get_doctest(example, {}, "example", None, None)
    assert (printed.run(test).failed == 0) is passes


def test_a_marked_example_may_differ_by_a_tenth() -> None:
    test = doctest.DocTestParser().get_doctest(">>> 105\n100\n", {}, "example", None, None)
    assert printed.run(test).failed == 1
    test.examples[0].options[printed.TENTH] = True
    assert printed.run(test).failed == 0
