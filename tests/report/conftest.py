"""Runs to report on, and a browser to open their pages in."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from budgetron import Budgetron, Forgetron, SharedProjectron, evaluate, graphs, kernels, report
from budgetron.data import synthetic

HOSTILE = [
    '<script>document.title="owned"</script>',
    "</script><img src=x onerror=\"document.title='owned'\">",
    "\u202egnp.exe",
    "a\"b'c&amp; ${1}",
    "x" * 5000,
    "\ud800 half",
    "   ",
]


@pytest.fixture
def opened(browser: Any) -> Iterator[Callable[..., Any]]:
    """Open a page in its own window. After the test, check that there were no errors and no external requests."""
    contexts, complaints = [], []

    def open_page(path: Path, width: int = 1200, scheme: str = "light") -> Any:
        context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(120_000)  # long, for a busy machine
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda request: None if request.url == path.as_uri() else complaints.append(request.url))
        page.goto(path.as_uri())
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert [text for text in complaints if text != "data:,"] == []


def stream(n: int, names: list[Any], seed: int = 0) -> tuple[Any, Any, list[Any]]:
    stream = synthetic.stream(n, d=5, n_tasks=len(names), relatedness=0.6, noise=0.1, seed=seed).dataset
    return stream.X, stream.y, [names[task] for task in stream.tasks]


@pytest.fixture(scope="session")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A page of each kind of run."""
    folder = tmp_path_factory.mktemp("reports")
    written = {}

    def run(name: str, model: Any, data: Any, context: report.Context | None = None, **settings: Any) -> None:
        result = evaluate.progressive(model, data, **settings)
        written[name] = folder / f"{name}.html"
        report.write(written[name], validation=result, model=model, context=context)

    many = [f"school {number}" for number in range(40)]
    context = report.Context(source="exam.csv", command="budgetron run exam.csv", seconds=2.0, rows=3002, bad_rows=2)
    run("usual", Budgetron(budget=40), stream(3000, many), context, window=100)
    hostile = report.Context(title=HOSTILE[0], source=HOSTILE[1], command=HOSTILE[0], notes=(HOSTILE[1],))
    run("hostile", Forgetron(budget=15), stream(700, HOSTILE), hostile, window=50)
    X, _, tasks = stream(900, list("abcdef"))
    grades = np.array([HOSTILE[1], "good", "middling"])[np.digitize(X[:, 0], [-0.5, 0.5])]
    graph = graphs.from_edges([("a", "b"), ("b", "c"), ("d", "e")], tasks=list("abcdef"))
    run("graph", SharedProjectron(30, kernels.Gaussian(0.2), graph), (X, grades, tasks), window=100)
    rng = np.random.default_rng(0)
    tasks = [f"user {number}" for number in [*range(10_000), *rng.integers(0, 200, 10_000)]]
    rows = rng.standard_normal((20_000, 3))
    run("many", Forgetron(budget=50), (rows, (rows[:, 0] > 0).astype(int), tasks), max_tasks=10_000)
    return written
