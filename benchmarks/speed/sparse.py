"""Speed on sparse text: RandomBudgetPerceptron compared with SciPy's sparse product, Budgetron with Vowpal Wabbit."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from measure import WALL_TIME, Row, compared, seconds
from streams import ModelOnStream, text
from yardsticks import csr_products

from budgetron import Budgetron, RandomBudgetPerceptron, kernels

sys.path.append(str(Path(__file__).parents[1]))  # modules that several kinds of measurements share
from vowpal_file import write_vowpal


def text_rows(repetitions: int, quick: bool) -> Iterator[Row]:
    """RandomBudgetPerceptron on text with 200,000 features, about 120 of them non-zero in a row."""
    for budget in (1000,) if quick else (1000, 5000):
        stream = text(6 * budget)
        for name, kernel in (
            ("polynomial", kernels.Polynomial(degree=2, bias=1.0, normalize=True)),
            ("gaussian", kernels.Gaussian(gamma=0.002)),
        ):
            model = RandomBudgetPerceptron(budget=budget, kernel=kernel)
            runner = ModelOnStream(model, stream, 500).fill(budget)
            row = Row(
                name=f"text-{name}-B{budget}",
                work=f"sparse text, d=200,000, B={budget}, {name}",
                yardstick="SciPy CSR product of the active set",
                unit="×",
                reach=25.0,
                at_most=False,
            )
            products = csr_products(model.active_set_.rows, stream.X[:10])
            done = compared(row, runner.learn, products, 500, 10, repetitions)
            yield replace(done, detail={"non-zeros per row": stream.X.nnz / stream.X.shape[0]})


def vowpal_rows(repetitions: int, quick: bool) -> Iterator[Row]:
    """Budgetron, whose weights are in a hashed table, and Vowpal Wabbit, which reads the same examples from a file."""
    row = Row(
        name="linear-text",
        work="Budgetron in 32 MiB on sparse text, block calls",
        yardstick="Vowpal Wabbit's C++ loop over a file",
        unit="×",
        reach=0.7,
        at_most=False,
    )
    try:
        import vowpalwabbit
    except ImportError:
        yield replace(row, reason="vowpalwabbit is not installed (extra bench)")
        return
    n = 2000 if quick else 5000
    stream = text(n)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "stream.vw"
        write_vowpal(path, stream.X, stream.y, stream.tasks)

        empty = Path(folder) / "empty.vw"
        empty.write_text("")

        def pass_over(file: Path) -> None:
            options = "--loss_function logistic -b 20 -q tf --quiet --no_stdin"
            vowpalwabbit.Workspace(f"{options} -d {file}").finish()

        def loop() -> float:
            """The time of Vowpal Wabbit's loop: the time with the file, minus the time with an empty one."""
            return seconds(lambda: pass_over(path), WALL_TIME) - seconds(lambda: pass_over(empty), WALL_TIME)

        runner = ModelOnStream(Budgetron(budget="32 MiB"), stream, n)
        yield compared(row, runner.learn, loop, n, n, max(3, repetitions), WALL_TIME)
