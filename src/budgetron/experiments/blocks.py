"""The blocks of the table. A block is a data set with its kernel; nothing is tuned per cell.

The paper states no kernel parameters. With these kernels the baseline without a budget has about the F-measure that
the paper prints. The second School block shows the effect of another kernel width.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import lru_cache

from budgetron import data
from budgetron.errors import input_error, shown
from budgetron.kernels import Gaussian, Kernel, Polynomial


@dataclass(frozen=True)
class TableBlock:
    """One block of the table."""

    name: str
    title: str
    set_name: str
    kernel: Kernel
    formula: str  # the kernel, for the headings
    unit_norm: bool  # whether rows are scaled to length 1 first
    in_paper: bool = True  # whether the paper has this block


_SQUARE = Polynomial(2, 1.0, normalize=True)
_CUBE = Polynomial(3, 1.0, normalize=True)
BLOCKS = (
    TableBlock("spam", "PKDD 2006 Spam A", "spam", _SQUARE, "((1+⟨x,x'⟩)/2)²", unit_norm=True),
    TableBlock("school", "School", "school", Gaussian(0.05), "exp(−0.05‖x−x'‖²)", unit_norm=False),
    TableBlock(
        "school-0.5",
        "School again",
        "school",
        Gaussian(0.5),
        "exp(−0.5‖x−x'‖²)",
        unit_norm=False,
        in_paper=False,
    ),
    TableBlock("sentiment", "Sentiment", "sentiment", _CUBE, "((1+⟨x,x'⟩)/2)³", unit_norm=True),
)


def chosen_blocks(sets: Iterable[str]) -> list[TableBlock]:
    """Return the blocks of these data sets, in the order of the table."""
    known = list(dict.fromkeys(block.set_name for block in BLOCKS))
    wanted = list(sets)
    for name in wanted or [""]:
        if name not in known:
            raise input_error("reproduce", "sets", "one or more of " + ", ".join(known), shown(name))
    return [block for block in BLOCKS if block.set_name in wanted]


def block_named(name: str) -> TableBlock:
    return next(block for block in BLOCKS if block.name == name)


@lru_cache(maxsize=1)
def ordered(set_name: str, unit_norm: bool, seed: int, folder: str | None) -> data.DataSet:
    """Return a data set in the random order of a seed. The last order is cached, because its runs are adjacent."""
    return _loaded(set_name, unit_norm, folder).shuffled(seed)


@lru_cache(maxsize=3)
def _loaded(set_name: str, unit_norm: bool, folder: str | None) -> data.DataSet:
    dataset = data.load(set_name, folder=folder)
    return replace(dataset, X=data.unit_norm(dataset.X)) if unit_norm else dataset
