"""School: examination results of 15,362 pupils in 139 London secondary schools; the paper's School set.

x    28 columns as in the file. All are binary except columns 3 and 4 (counted from 0), which are scaled to [0, 1]. The
     last column is the constant 1. The file has no column names.
y    1 if the score is above its 75th percentile over all pupils (29), otherwise 0
task the school, 0 to 138, in the order of the file; rows are sorted by school, so shuffle them
"""

from __future__ import annotations

import io
from collections.abc import Mapping

import numpy as np

from budgetron.data.entry import Entry, Examples
from budgetron.data.files import github_file

_FILE = github_file(
    "school/school.mat",
    repository="jiayuzhou/MALSAR",
    commit="fb9751594983df020ddc4f7e4a40520ee7c37989",
    path="data/school.mat",
    sha256="57fb3238fdd03a9aa17276e2ce18d9bbb5d128c3261e794fe6233b58b6909068",
)


def _parse(contents: Mapping[str, bytes]) -> Examples:
    """Stack the schools, scale the two columns that are not binary, and threshold the scores."""
    from scipy.io import loadmat

    cells = loadmat(io.BytesIO(contents[_FILE.name]))
    # The file has one array of rows per school.
    schools = cells["X"][0]
    X = np.vstack(schools).astype(np.float64)
    for column in (3, 4):
        low, high = X[:, column].min(), X[:, column].max()
        X[:, column] = (X[:, column] - low) / (high - low)
    score = np.vstack(cells["Y"][0]).ravel()
    y = (score > np.percentile(score, 75)).astype(np.int64)
    tasks = np.repeat(np.arange(len(schools)), [len(pupils) for pupils in schools])
    return Examples(X, y, tasks, None)


ENTRY = Entry(
    name="school",
    description="Pupils of 139 London schools: is the exam score in the top quarter? Sorted by school.",
    licence="unknown; no licence is stated, for experiments only",
    citation=(
        "H. Goldstein, Multilevel modelling of survey data, The Statistician 40 (1991) 235-244 (Inner London "
        "Education Authority, 1985-1987); as packaged in J. Zhou, J. Chen, J. Ye, MALSAR (2011)"
    ),
    source=_FILE.url,
    n=15362,
    d=28,
    k=139,
    positives=3608,
    parse=_parse,
    files=(_FILE,),
)
