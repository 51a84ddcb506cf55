"""Data: real sets with their licence and citation, and made ones with a known answer.

>>> from budgetron import data
>>> exam = data.load("exam").shuffled(seed=0)
>>> exam
<DataSet exam: n=4059, d=12, k=65, shuffle_seed=0>
"""

from budgetron.data import synthetic
from budgetron.data.dataset import DataSet
from budgetron.data.entry import Entry
from budgetron.data.files import DataCorrupt, DataUnavailable
from budgetron.data.registry import available, fetch, is_here, load
from budgetron.data.scaling import standardized, unit_norm

__all__ = [
    "DataCorrupt",
    "DataSet",
    "DataUnavailable",
    "Entry",
    "available",
    "fetch",
    "is_here",
    "load",
    "standardized",
    "synthetic",
    "unit_norm",
]
