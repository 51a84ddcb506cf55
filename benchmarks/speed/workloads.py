"""The measurements of the table of speeds that two versions of Budgetron can both run, for two_builds.py.

    python benchmarks/speed/workloads.py GROUP

measures one group and prints JSON: per row the microseconds per unit of work and the number of mistakes. This file
uses only names that version 0.1 has too. For a renamed module it tries both names.
"""

from __future__ import annotations

import csv
import json
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import blas_one_thread  # noqa: F401  before NumPy is imported
import numpy as np
from mixed_records import mixed_records
from streams import ModelOnStream, Stream, noisy, random_labels, text

from budgetron import BudgetProjectron, Budgetron, Forgetron, RandomBudgetPerceptron, SharedProjectron, graphs, kernels

GAUSSIAN = kernels.Gaussian(gamma=0.02)


class Row(NamedTuple):
    """Work that is repeated, and how many examples (or tasks, or rows of a file) one call has."""

    name: str
    work: Callable[[], object]
    n: int
    repetitions: int = 15
    model: Any = None  # its mistakes must agree in both versions, otherwise the versions did not do the same work


def learning(name: str, model: Any, stream: Stream, block: int, budget: int, repetitions: int = 15) -> Row:
    """Block calls on a full budget."""
    return Row(name, ModelOnStream(model, stream, block).fill(budget).learn, block, repetitions, model)


def dense() -> Iterator[Row]:
    for d, budget in ((28, 100), (28, 1000), (784, 1000)):
        for dtype in ("float32", "float64"):
            block = 400 if d == 784 else 2000
            model = RandomBudgetPerceptron(budget=budget, kernel=kernels.Gaussian(gamma=0.5 / d))
            stream = noisy(8 * block + 4 * budget, d, dtype=dtype)
            yield learning(f"mtrbp, d={d}, B={budget}, {dtype}", model, stream, block, budget)
    model = RandomBudgetPerceptron(budget=500, kernel=GAUSSIAN)
    ModelOnStream(model, random_labels(10_000), 2000).fill(500)
    stream = random_labels(10_000)
    yield Row("predict in blocks of 10,000, B=500", lambda: model.predict(stream.X, tasks=stream.tasks), 10_000)


def budgets() -> Iterator[Row]:
    for learner, budget in (
        (RandomBudgetPerceptron, 100), (RandomBudgetPerceptron, 5000), (Forgetron, 100), (Forgetron, 1000),
        (Forgetron, 5000), (BudgetProjectron, 100), (BudgetProjectron, 500), (BudgetProjectron, 1000),
        (SharedProjectron, 1000),
    ):  # fmt: skip
        stream = random_labels(max(4000, 4 * budget))
        name = f"{learner.__name__}, B={budget}, labels at random"
        yield learning(name, learner(budget=budget, kernel=GAUSSIAN), stream, 500, budget, 10)


def shared() -> Iterator[Row]:
    for budget, k, n in ((500, 4, 4000), (500, 139, 4000), (300, 1000, 8000)):
        yield shared_row(budget, k, n, 20)


def shared_many() -> Iterator[Row]:
    """A group of its own, because version 0.1 needs a minute for it."""
    yield shared_row(500, 100_000, 24_000, 4)


def shared_row(budget: int, k: int, n: int, repetitions: int) -> Row:
    """SharedProjectron after n examples of k tasks."""
    model = SharedProjectron(budget=budget, kernel=GAUSSIAN)
    # No example is repeated: the own weights of its task would predict it correctly the second time.
    runner = ModelOnStream(model, random_labels(n + (repetitions + 1) * 500, n_tasks=k), 500)
    while runner.start < n:
        runner.learn()
    return Row(f"SharedProjectron, k={k:,}, B={budget}", runner.learn, 500, repetitions, model)


def shared_graph() -> Iterator[Row]:
    model = SharedProjectron(budget=300, kernel=GAUSSIAN, graph=random_graph(1000))
    stream = random_labels(4000, n_tasks=1000)
    yield learning("SharedProjectron, explicit graph of 1,000 tasks, B=300", model, stream, 100, 300, 10)


def sparse() -> Iterator[Row]:
    for budget in (1000, 5000):
        stream = text(6 * budget)
        for name, kernel in (
            ("polynomial", kernels.Polynomial(degree=2, bias=1.0, normalize=True)),
            ("gaussian", kernels.Gaussian(gamma=0.002)),
        ):
            model = RandomBudgetPerceptron(budget=budget, kernel=kernel)
            yield learning(f"mtrbp on sparse text, B={budget}, {name}", model, stream, 500, budget)
        # Weighted text: the values are not whole numbers.
        weighted = Stream(stream.X * 0.1, stream.y, stream.tasks)
        model = RandomBudgetPerceptron(budget=budget, kernel=kernels.Gaussian(gamma=0.2))
        yield learning(f"mtrbp on weighted text, B={budget}, gaussian", model, weighted, 500, budget)
    for name, scale in (("text", 1.0), ("weighted text", 0.1)):
        part = Stream(stream.X[:2000] * scale, stream.y[:2000], stream.tasks[:2000])

        def fill(part: Stream = part) -> None:
            ModelOnStream(RandomBudgetPerceptron(budget=1000, kernel=kernels.Gaussian(gamma=0.002)), part, 2000).learn()

        yield Row(f"mtrbp on sparse {name}, the first 2,000 rows of a new model, B=1000", fill, 2000)


def tasks() -> Iterator[Row]:
    k = 1_000_000
    for name, graph in (
        ("complete", graphs.complete()),
        ("disconnected", graphs.disconnected()),
        ("clusters", graphs.clusters({task: task % (k // 10) for task in range(k)})),
    ):
        model = RandomBudgetPerceptron(budget=500, kernel=GAUSSIAN, graph=graph)
        yield learning(f"mtrbp, {k:,} tasks, {name}, B=500", model, random_labels(10_000, n_tasks=k), 2000, 500)


def random_graph(k: int) -> graphs.TaskGraph:
    """A random graph of average degree 5."""
    edges = np.random.default_rng(0).integers(0, k, (k * 5 // 2, 2))
    edges = np.unique(np.sort(edges[edges[:, 0] != edges[:, 1]], axis=1), axis=0)
    return graphs.from_edges(edges, tasks=range(k))


def graph() -> Iterator[Row]:
    model = RandomBudgetPerceptron(budget=500, kernel=GAUSSIAN, graph=random_graph(100_000))
    yield learning("mtrbp, graph of 100,000 tasks, columns cached", model, random_labels(10_000, n_tasks=20), 2000, 500)
    new, x = iter(range(100, 200)), np.zeros((1, 28))
    touch = Row("the same, first touch of a task", lambda: model.decision_function(x, tasks=[next(new)]), 1, 20)
    yield touch
    starts, rows = iter(range(1000, 2000, 40)), np.zeros((40, 28))

    def block() -> None:
        start = next(starts)
        model.decision_function(rows, tasks=range(start, start + 40))

    yield Row("the same, each of 40 new tasks in one block", block, 40, 3)


def singles() -> Iterator[Row]:
    stream = noisy(8000)
    model = ModelOnStream(RandomBudgetPerceptron(budget=100, kernel=GAUSSIAN), stream, 2000).fill(100).model
    examples = [(x, int(y), int(task)) for x, y, task in zip(*stream[:200], strict=True)]

    def each(call: Callable[..., object], arguments: list[tuple[Any, ...]]) -> Callable[[], None]:
        def work() -> None:
            for argument in arguments:
                call(*argument)

        return work

    n, repetitions = len(examples), 40
    learn = each(lambda x, y, task: model.learn_one(x, y, task=task), examples)
    predict = each(lambda x, y, task: model.predict_one(x, task=task), examples)
    yield Row("learn_one on a NumPy row, B=100, d=28", learn, n, repetitions)
    yield Row("predict_one on a NumPy row, B=100, d=28", predict, n, repetitions)
    named = [({f"x{i}": value for i, value in enumerate(x[:20].tolist())}, y == 1) for x, y, _ in examples]
    hashed = RandomBudgetPerceptron(budget=100, kernel=GAUSSIAN)
    hashed.learn_one(*named[0], classes=[False, True])
    yield Row("learn_one on a dict of 20 features, B=100", each(hashed.learn_one, named), n, repetitions)
    predict = each(lambda x, y: hashed.predict_one(x), named)
    yield Row("predict_one on a dict of 20 features, B=100", predict, n, repetitions)
    rng = np.random.default_rng(0)
    X, y, keys = rng.normal(size=(4000, 5)), rng.integers(2, size=4000).tolist(), rng.integers(40, size=4000).tolist()
    for small in (Forgetron(budget=10), Budgetron(budget="64 KiB")):
        small.partial_fit(X[:100], y[:100], tasks=keys[:100])
        calls = iter(range(100, 4000))

        def hundred(small: Any = small, calls: Iterator[int] = calls) -> None:
            for i, _ in zip(calls, range(100), strict=False):
                small.learn_one(X[i], y[i], task=keys[i])

        yield Row(f"learn_one, {small!r}, d=5", hundred, 100, 30)


def files() -> Iterator[Row]:
    from budgetron import evaluate

    try:
        from budgetron import io
    except ImportError:  # its name in version 0.1
        from budgetron import streams as io  # type: ignore[attr-defined, no-redef]
    records = mixed_records(40_000)  # the first 4,096 rows take longer, because types are inferred from them
    with tempfile.TemporaryDirectory() as folder:
        lines, table = Path(folder) / "mixed.ndjson", Path(folder) / "mixed.csv"
        lines.write_text("".join(json.dumps(record) + "\n" for record in records))
        with table.open("w", newline="") as file:
            writer = csv.DictWriter(file, list(records[0]))
            writer.writeheader()
            writer.writerows(records)

        def read_all(path: Path) -> None:
            with io.read(path) as stream:
                for _ in stream:
                    pass

        def run(make: Callable[[], Any]) -> None:
            validator = None
            with io.read(table) as stream:
                for block in stream:
                    validator = validator or evaluate.Validator(make(), classes=stream.classes)
                    validator.add(block.X, block.y, block.tasks)
            assert validator is not None
            validator.finish()

        n = len(records)
        yield Row("NDJSON with numbers, categories, dates and text, read", lambda: read_all(lines), n, 4)
        yield Row("CSV with numbers, categories, dates and text, read", lambda: read_all(table), n, 4)
        yield Row("the same, run with Budgetron(kernel=None)", lambda: run(lambda: Budgetron(kernel=None)), n, 3)
        yield Row("the same, run with Forgetron(budget=100)", lambda: run(lambda: Forgetron(budget=100)), n, 3)


FIRST_EXAMPLE = """
import numpy as np
from budgetron import RandomBudgetPerceptron
RandomBudgetPerceptron(budget=10).learn_one(np.zeros(28), 1)
"""
HOST = """
import os, sys
import numpy as np
from budgetron import Budgetron, RandomBudgetPerceptron
try:
    from budgetron.durable import Host
except ImportError:  # its name in version 0.1
    from budgetron.host import Host
def make():
    return Budgetron() if sys.argv[2] == "Budgetron" else RandomBudgetPerceptron(budget=500)
host = Host.open(sys.argv[1], make_model=make)
"""
CRASH = HOST + """
rng = np.random.default_rng(0)
for _ in range(50):
    X = rng.standard_normal((100, 28))
    host.learn(X, X[:, 0] > 0, tasks=rng.integers(0, 8, 100), classes=[False, True])
os._exit(1)  # nothing is closed, so the log has to be replayed
"""
RESTART = HOST + "assert host.model.n_seen_ == 5000; os._exit(0)"


def starts() -> Iterator[Row]:
    """Whole processes. The first run of each is not measured, because it may write the bytecode cache."""

    def run(program: str, *arguments: str) -> int:
        return subprocess.run([sys.executable, "-c", program, *arguments], stderr=subprocess.DEVNULL).returncode

    yield Row("a process that imports budgetron and learns one example", lambda: run(FIRST_EXAMPLE), 1, 3)
    with tempfile.TemporaryDirectory() as folder:
        for learner in ("RandomBudgetPerceptron", "Budgetron"):
            crashed = Path(folder) / learner
            run(CRASH, str(crashed), learner)

            def restart(crashed: Path = crashed, learner: str = learner) -> None:
                with tempfile.TemporaryDirectory() as copy:
                    shutil.copytree(crashed, copy, dirs_exist_ok=True)
                    if run(RESTART, copy, learner):
                        raise RuntimeError(f"the restart with {learner} failed")

            yield Row(f"a process that replays a log of 5,000 rows after a crash, {learner}", restart, 1, 3)


GROUPS = {
    "dense": dense, "budgets": budgets, "shared": shared, "shared-many": shared_many,
    "shared-graph": shared_graph, "sparse": sparse, "tasks": tasks, "graph": graph, "singles": singles,
    "files": files, "starts": starts,
}  # fmt: skip


def measured(row: Row) -> dict[str, float]:
    """The minimum over the repetitions, in processor time, because other programs may run at the same time."""

    def clock() -> float:
        children = resource.getrusage(resource.RUSAGE_CHILDREN)
        return time.thread_time() + children.ru_utime + children.ru_stime

    row.work()  # warms up caches and branch predictors
    times = []
    for _ in range(row.repetitions):
        begin = clock()
        row.work()
        times.append(clock() - begin)
    return {"us": min(times) / row.n * 1e6, "mistakes": 0 if row.model is None else int(row.model.n_mistakes_)}


if __name__ == "__main__":
    print(json.dumps({row.name: measured(row) for row in GROUPS[sys.argv[1]]()}))
