"""The core encodes words, dates and rows exactly as the definitions in Python, SciPy and scikit-learn do."""

from __future__ import annotations

import io as bytes_io

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from sklearn.feature_extraction.text import HashingVectorizer

from budgetron import io
from budgetron.engine import native
from budgetron.io.encoding.encode import parse_date_values
from budgetron.io.encoding.values import parse_date

pytestmark = pytest.mark.skipif(not native.available, reason="built without a compiler")

WORDS = ["Free", "OFFER", "lunch", "naïve", "Ünïcode", "İstanbul", "ﬁn", "ß", "Σας", "don't", "a_b", "x-y", "3.14", "½",
         "日本語", "🙂", "e\u0301", "\u00a0", "--", "", "\t", "١٢", "ǅ", "a\u200db", "\x00", "word " * 40]  # fmt: skip


def words_by_sklearn(texts, size, shift):
    """Hash the words of texts with scikit-learn, which defines the encoding."""
    hashed = HashingVectorizer(n_features=size, ngram_range=(1, 2), alternate_sign=False,
                              token_pattern=r"(?u)\b\w+\b").transform(texts)  # fmt: skip
    shifted = sparse.csr_matrix((hashed.data, (hashed.indices + shift) % size, hashed.indptr), shape=hashed.shape)
    shifted.sort_indices()
    return shifted


def check_words(texts, size, shift):
    """Assert that the core hashes words as scikit-learn does."""
    expected = words_by_sklearn(texts, size, shift)
    indptr, indices, data = native.hashed_words(texts, size, shift)
    assert indptr.tolist() == expected.indptr.tolist()
    assert indices.tolist() == expected.indices.tolist()
    assert data.tobytes() == expected.data.tobytes()


@pytest.mark.parametrize("size, shift", [(2**18, 0), (2**18, 77777), (10_007, 10_006), (7, 3), (1, 0)])
def test_the_core_hashes_words_as_the_definition_does(size, shift):
    rng = np.random.default_rng(size)
    texts = [" ".join(rng.choice(WORDS, size=rng.integers(0, 12))) for _ in range(300)]
    check_words([*texts, *WORDS, ""], size, shift)


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=40), min_size=1, max_size=5))
def test_the_core_hashes_words_of_any_text_as_the_definition_does(texts):
    check_words(texts, 2**10, 5)


DATES = ["2024-02-29", "2023-02-29", "1900-02-29", "2000-02-29", "0001-01-01", "0000-01-01", "9999-12-31", "1969-12-31",
         "2024-02-29 12:30", "2024-02-29T12:30:05", "2024-02-29T24:00:00", "2024-02-29 12:60", "2024-02-29T12:30:60",
         "2024-02-29T12:30:05.25", "2024-02-29T12:30:05+02:00", "2024-02-29T12:30Z", " 2024-02-29 ", "2024-2-29",
         "2024-13-01", "2024-00-10", "2024-01-00", "2024-04-31", "NA", "", "?", "soon", "2024-02-2x", "2024/02/29",
         "20240229", "2024-02-29x12:30", "٢٠٢٤-٠٢-٢٩", "2024-02-29 1:30", "2024-02-29T12-30",
         "2024-02-29 12:30:5"]  # fmt: skip


def dates_by_python(texts, missing=()):
    """Parse the dates of texts with `parse_date`, which defines the encoding."""
    days = [parse_date(text, missing) for text in texts]
    return np.array([np.inf if day is None else day for day in days])


def test_the_core_encodes_dates_as_the_definition_does():
    rng = np.random.default_rng(0)
    dates = [f"{y:04}-{m:02}-{d:02}{s}{h:02}:{i:02}:{k:02}" for y, m, d, h, i, k, s in zip(
        rng.integers(1, 10_000, 3000), rng.integers(1, 14, 3000), rng.integers(0, 33, 3000), rng.integers(0, 26, 3000),
        rng.integers(0, 62, 3000), rng.integers(0, 62, 3000), rng.choice([" ", "T"], 3000), strict=True)]  # fmt: skip
    texts = DATES + dates + [text[:10] for text in dates] + [text[:16] for text in dates]
    assert parse_date_values(texts).tobytes() == dates_by_python(texts).tobytes()
    codes = ["1900-01-01", "2024-02-29"]
    assert parse_date_values(texts, codes).tobytes() == dates_by_python(texts, codes).tobytes()


@pytest.mark.parametrize("n_parts, width, size", [(1, 4, 12), (2, 4, 12), (3, 4, 12), (3, 60, 200)])
def test_the_core_joins_columns_as_scipy_does(n_parts, width, size):
    rng = np.random.default_rng(n_parts)
    dense = np.where(rng.random((50, width)) < 0.5, 0.0, rng.normal(size=(50, width)))
    parts = [sparse.random(9, size, 0.4, format="csr", random_state=rng) for _ in range(n_parts)]
    codes = [rng.integers(0, 9, 50).astype(np.int32) for _ in parts]
    rows = [part[code] for part, code in zip(parts, codes, strict=True)]
    expected = sparse.hstack([sparse.csr_matrix(dense), sum(rows[1:], rows[0])], format="csr")
    expected.sort_indices()
    core_parts = [(p.indptr.astype(np.int64), p.indices, p.data, c) for p, c in zip(parts, codes, strict=True)]
    indptr, indices, data = native.joined_rows(dense, core_parts)
    assert indptr.tolist() == expected.indptr.tolist()
    assert indices.tolist() == expected.indices.tolist()
    assert data.tobytes() == expected.data.tobytes()


@pytest.mark.parametrize("change", [
    lambda part: (part[0], part[1], part[2], part[3] + 9), lambda part: (part[0] + 100, *part[1:]),
    lambda part: (part[0], part[1] - 99, *part[2:]), lambda part: (part[0], part[1][:-1], *part[2:]),
    lambda part: (*part[:3], part[3][:-1]), lambda part: part[:3],
])  # fmt: skip
def test_parts_that_do_not_fit_are_rejected(change):
    part = sparse.random(9, 12, 0.4, format="csr", random_state=np.random.default_rng(0))
    fitting = (part.indptr.astype(np.int64), part.indices, part.data, np.arange(9, dtype=np.int32))
    with pytest.raises((ValueError, RuntimeError)):
        native.joined_rows(np.ones((9, 2)), [change(fitting)])


def test_a_file_is_encoded_equally_without_the_core(monkeypatch):
    rng = np.random.default_rng(0)
    lines = ["size,colour,item,when,title,body,label"]
    for i in range(300):
        text = " ".join(rng.choice([word for word in WORDS if word.isprintable()], 6)).replace('"', "")
        day = f"2024-01-{1 + i % 28:02}{'T10:00:00.5' if i % 7 == 0 else ''}"
        first = f"{rng.normal():.3f},{'red' if i % 3 else ''},item {rng.integers(0, 60)},{day}"
        lines.append(f'{first},"{text}","{text} Ende",{i % 2}')
    content = "\n".join(lines).encode()

    def blocks():
        with io.read(bytes_io.BytesIO(content), text=["title", "body"], categorical=["item"], block_rows=64) as stream:
            return [block.X for block in stream]

    fast = blocks()
    for name in ("hashed_words", "parse_dates", "joined_rows"):
        monkeypatch.setattr(native, name, None)
    for from_core, in_python in zip(fast, blocks(), strict=True):
        in_python.sort_indices()
        assert from_core.indptr.tolist() == in_python.indptr.tolist()
        assert from_core.indices.tolist() == in_python.indices.tolist()
        assert from_core.data.tobytes() == in_python.data.tobytes()
        assert from_core.has_canonical_format
