"""Sentiment: 8,000 Amazon product reviews of four kinds of product; the paper's Sentiment set.

x    counts of words and of pairs of words, one column per distinct token; columns are sorted by token
y    1 for a positive review
task the kind of product: books, dvd, electronics or kitchen; rows are sorted by task and class, so shuffle them
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from budgetron.data.entry import Entry, Examples
from budgetron.data.files import github_file

_REPOSITORY = "RyosukeOzaki/Logistic-Regression"
_COMMIT = "9ec5348a0cd608863ef3bf9ee5d1c4c57baf81c8"
_SHA256 = {
    "books/positive": "d27a35a59e99b2c2d56731cad8d63870f8a3b9063a70bf8c18862e0a107cdd02",
    "books/negative": "42e4d7e63f429e396de0db87b814f8c6a4b4948d34c94524725b0fe2944a0ff4",
    "dvd/positive": "7e3a2655f9afd141bba569d0df6a4444f6bfa3c28daf243f21125c757940b563",
    "dvd/negative": "9f0c977cf863f361f1f9961dc9e8c2b88630902da3eb5fd880146445144c355d",
    "electronics/positive": "38d0ee5fd4147cfaff427b7f8c1ea9aacbb1fd383d51676288b7af5947fe039f",
    "electronics/negative": "497d95c1ce079d2db672f9d2efa9cc02ba4ebd2a525f7b2495233305def11616",
    "kitchen/positive": "30fd84894433ee9dd7f7aa3da6f858811104e364528719be2d77372295c7d3b3",
    "kitchen/negative": "674510d22f8f0b27790d323ef8633408777e92c122e801ee4ba02bb001d1d798",
}
_FILES = {
    part: github_file(
        f"sentiment/processed_acl/{part}.review", _REPOSITORY, _COMMIT, f"processed_acl/{part}.review", sha256
    )
    for part, sha256 in _SHA256.items()
}


def _parse(contents: Mapping[str, bytes]) -> Examples:
    """Return the counts of all reviews as one CSR matrix, with labels and tasks."""
    from scipy.sparse import csr_matrix

    column: dict[str, int] = {}  # token → column, numbered by first appearance; sorted below
    indices: list[int] = []
    counts: list[float] = []
    ends, y, tasks = [0], [], []
    for part, file in _FILES.items():
        domain = part.partition("/")[0]
        for tokens, label in _reviews(contents[file.name]):
            for token, count in tokens:
                indices.append(column.setdefault(token, len(column)))
                counts.append(count)
            ends.append(len(indices))
            y.append(int(label == "positive"))
            tasks.append(domain)
    # Columns are sorted, so that they do not depend on the order of the files.
    names = tuple(sorted(column))
    position = np.empty(len(names), dtype=np.int64)
    position[[column[name] for name in names]] = np.arange(len(names))
    X = csr_matrix((np.array(counts), position[indices], ends), shape=(len(y), len(names)), dtype=np.float64)
    X.sum_duplicates()
    return Examples(X, np.array(y, dtype=np.int64), np.array(tasks), names)


def _reviews(content: bytes) -> Iterator[tuple[list[tuple[str, float]], str]]:
    """Yield the (token, count) pairs and the label of each line: `token:count … #label#:positive`."""
    for line in content.decode("utf-8").rstrip("\n").split("\n"):
        *pairs, last = line.split(" ")
        split = (pair.rpartition(":") for pair in pairs)
        yield [(token, float(count)) for token, _, count in split], last.partition(":")[2].strip()


ENTRY = Entry(
    name="sentiment",
    description="Product reviews in four departments: positive? Sorted by department and class.",
    licence="unknown; no licence is stated, for experiments only",
    citation=(
        "J. Blitzer, M. Dredze, F. Pereira, Biographies, Bollywood, boom-boxes and blenders: domain "
        "adaptation for sentiment classification, ACL 2007, 440-447"
    ),
    source=f"https://github.com/{_REPOSITORY}/tree/{_COMMIT}/processed_acl",
    n=8000,
    d=473856,
    k=4,
    positives=4000,
    parse=_parse,
    files=tuple(_FILES.values()),
)
