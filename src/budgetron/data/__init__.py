"""Data sets for experiments: real data sets with licence and citation, and synthetic streams with a known answer.

`load` returns a real data set by name; `synthetic.stream` generates a stream. Nothing is downloaded on import.

>>> from budgetron import data
>>> exam = data.load("exam").shuffled(seed=0)
>>> exam
<DataSet exam: n=4059, d=12, k=65, shuffle_seed=0>
"""

from budgetron.data import synthetic
from budgetron.data.dataset import DataSet
from budgetron.data.entry import Entry
from budgetron.data.files import DataCorrupt, DataUnavailable
from budgetron.data.preprocess import standardized, unit_norm
from budgetron.data.registry import available, fetch, is_available, load

__all__ = [
    "DataCorrupt",
    "DataSet",
    "DataUnavailable",
    "Entry",
    "available",
    "fetch",
    "is_available",
    "load",
    "standardized",
    "synthetic",
    "unit_norm",
]
