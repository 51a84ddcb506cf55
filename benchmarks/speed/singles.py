"""Single rows and dicts: `learn_one` against river's linear Perceptron, and `predict_one` against `learn_one`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

from measure import Row, compared
from streams import ModelOnStream, noisy

from budgetron import RandomBudgetPerceptron, kernels

GAUSSIAN = kernels.Gaussian(gamma=0.02)
B, N = 100, 1000
LEARN = Row(
    name="learn-one",
    work=f"learn_one on a NumPy row, B={B}, d=28, mtrbp",
    yardstick="river's linear Perceptron.learn_one",
    unit="×",
    reach=0.4,
    in_0_1=0.72,
)
DICT = replace(
    LEARN, name="learn-one-dict", work=f"learn_one on a dict of 20 features, B={B}, mtrbp", reach=1.0, in_0_1=3.6
)
PREDICT = Row(
    name="predict-one",
    work=f"predict_one on a NumPy row, B={B}, d=28, mtrbp",
    yardstick="learn_one on the same row",
    unit="×",
    reach=1.0,
    in_0_1=2.35,
)


def for_every(call: Callable[..., Any], examples: Iterable[tuple[Any, ...]]) -> Callable[[], None]:
    """Return work that calls a function for every example."""

    def work() -> None:
        for example in examples:
            call(*example)

    return work


def single_rows(repetitions: int, quick: bool) -> Iterator[Row]:
    stream = noisy(8000)
    model = ModelOnStream(RandomBudgetPerceptron(budget=B, kernel=GAUSSIAN), stream, 2000).fill(B).model
    examples = [(x, int(y), int(task)) for x, y, task in zip(*stream[:N], strict=True)]
    learn = for_every(lambda x, y, task: model.learn_one(x, y, task=task), examples)
    predict = for_every(lambda x, y, task: model.predict_one(x, task=task), examples)
    yield compared(PREDICT, predict, learn, N, N, repetitions)
    try:
        from river import linear_model
    except ImportError:
        for row in (LEARN, DICT):
            yield replace(row, reason="river is not installed (extra bench)")
        return
    dicts = [(dict(enumerate(x.tolist())), y == 1) for x, y, _ in examples]
    yield compared(LEARN, learn, for_every(linear_model.Perceptron().learn_one, dicts), N, N, repetitions)
    named = [({f"x{i}": value for i, value in enumerate(x[:20].tolist())}, y == 1) for x, y, _ in examples]
    hashed = RandomBudgetPerceptron(budget=B, kernel=GAUSSIAN)
    hashed.learn_one(*named[0], classes=[False, True])
    yield compared(
        DICT,
        for_every(hashed.learn_one, named),
        for_every(linear_model.Perceptron().learn_one, named),
        N,
        N,
        repetitions,
    )
