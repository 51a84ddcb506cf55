"""Spam: the three labelled evaluation inboxes of the ECML/PKDD 2006 challenge, task A; the paper's Spam A.

x    counts of words. A column is the index in the file minus 1; 39,962 of the 106,780 columns are not empty
y    1 for spam
task the inbox: u00, u01 or u02; rows are sorted by inbox, so shuffle them
"""

from __future__ import annotations

import io
from collections.abc import Mapping

import numpy as np

from budgetron.data.entry import Entry, Examples
from budgetron.data.files import github_file

_REPOSITORY = "shohoku11wrj/Spam-Filter"
_COMMIT = "36b41aabee9f953bd799a8a0bc4993d80a9b23cd"
_FOLDER = "SpamFilterData/evaluation_data_labeled/task_a_lab"
_WORDS = 106780
_SHA256 = {
    "u00": "b067310a31af5f551efd2a26adc3f9c487fbeb20fc3322116924edde2f265088",
    "u01": "094636b62ea46b02fb4744200f40b65e3ad11134e1c59ef2bae5ef807c7e4ef4",
    "u02": "b63c35f64a9fcdeb6bd26503520f5f081f7356ffdf2876b91575c4c4fe456f07",
}
_FILES = {
    inbox: github_file(
        f"spam_task_a/task_a_{inbox}_eval_lab.tf",
        _REPOSITORY,
        _COMMIT,
        f"{_FOLDER}/task_a_{inbox}_eval_lab.tf",
        sha256,
    )
    for inbox, sha256 in _SHA256.items()
}


def _parse(contents: Mapping[str, bytes]) -> Examples:
    """Stack the three inboxes."""
    from scipy.sparse import vstack
    from sklearn.datasets import load_svmlight_file

    blocks, labels, tasks = [], [], []
    for inbox, file in _FILES.items():
        # Columns are counted from 1 in the files.
        X, sign = load_svmlight_file(io.BytesIO(contents[file.name]), n_features=_WORDS, zero_based=False)
        blocks.append(X)
        labels.append(sign > 0)
        tasks += [inbox] * len(sign)
    y = np.concatenate(labels).astype(np.int64)
    return Examples(vstack(blocks, format="csr"), y, np.array(tasks), None)


ENTRY = Entry(
    name="spam",
    description="Three users' inboxes as word counts: is the message spam? Sorted by user.",
    licence="unknown for the data (the repository that holds this copy is MIT), for experiments only",
    citation=(
        "S. Bickel, ECML-PKDD Discovery Challenge 2006 overview: personalized spam filtering and "
        "generalization across related learning tasks, ECML/PKDD Discovery Challenge Workshop 2006"
    ),
    source=f"https://github.com/{_REPOSITORY}/tree/{_COMMIT}/{_FOLDER}",
    n=7500,
    d=_WORDS,
    k=3,
    positives=3750,
    parse=_parse,
    files=tuple(_FILES.values()),
)
