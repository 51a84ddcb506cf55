"""Made streams whose right answer is known: how related, how noisy, how non-linear, how they shift.

>>> from budgetron.data import synthetic
>>> dataset, answer = synthetic.stream(1000, d=20, n_tasks=4, relatedness=0.8, noise=0.1, seed=7)
>>> dataset
<DataSet synthetic: n=1000, d=20, k=4>
>>> answer.relatedness(t=0)[0].round(6).tolist()
[1.0, 0.8, 0.8, 0.8]
>>> float((answer.labels != dataset.y).mean())  # what the best possible predictor errs
0.094
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from budgetron.data.dataset import DataSet
from budgetron.data.known import Floats, KnownAnswer, Shift, draw_weights, similarities_on
from budgetron.errors import refuse, shown

if TYPE_CHECKING:
    from budgetron.graphs import TaskGraph

__all__ = ["KnownAnswer", "Shift", "Synthetic", "stream"]

FOURIER_FEATURES = 400
_FORMS = ("linear", "xor", "gaussian", "text")


class Synthetic(NamedTuple):
    """A made stream and its answer, both in the order of the stream (so do not shuffle the one alone)."""

    dataset: DataSet
    answer: KnownAnswer


def stream(
    n: int = 2000,
    *,
    d: int = 20,
    n_tasks: int | None = None,
    relatedness: float = 0.5,
    graph: TaskGraph | None = None,
    noise: float = 0.0,
    form: str = "linear",
    shift: Shift | None = None,
    task_skew: float = 0.0,
    words: int = 50,
    seed: int = 0,
) -> Synthetic:
    """A stream of n examples of related tasks, the same for the same arguments.

    Parameters
    ----------
    n, d : examples; features of x.
    n_tasks : how many tasks, 8 if not said; an explicit graph says it itself.
    relatedness : the cosine, in [0, 1], between the weights of any two tasks.
    graph : a task graph instead: the cosines are A⁻¹ scaled to a unit diagonal.
    noise : the probability, in [0, 0.5], that a label is flipped: the error of the best predictor.
    form : "linear": x is standard normal and the answer linear in it. "xor": linear in the products x₀x₁,
        x₂x₃, … and so invisible to a linear learner. "gaussian": linear in 400 random Fourier features of the
        Gaussian kernel with γ = 1/d. "text": x holds sparse word counts (CSR) by Zipf's law, and the answer
        is linear in them.
    shift : a `Shift`, abrupt or gradual, all tasks alike or each its own way; None for none.
    task_skew : task i (from 0) comes with probability proportional to (i+1)^−skew; 0 is uniform.
    words : mean number of words in an example of form "text".
    seed : of everything random here.

    Cosines are exact while 2(n_tasks + 1) is less than the number of features (d, d/2 for "xor", 400 for
    "gaussian"), otherwise right on average.
    """
    said = ", ".join(f"{name}={value!r}" for name, value in locals().items() if value is not None)
    _check(n, d, n_tasks, relatedness, noise, form, task_skew, words)
    rng = np.random.default_rng(seed)
    names = _names(n_tasks, graph)
    k = len(names)

    task = rng.choice(k, size=n, p=_decreasing(k, task_skew))
    X: Any
    mean = None
    if form == "text":
        X, mean = _text(n, d, words, rng)
    else:
        X = rng.standard_normal((n, d))
    features = _features(form, d, rng)
    lifted = features(X)

    relation = relatedness if graph is None else similarities_on(graph, names)
    alike = shift is None or shift.alike
    start, heading = draw_weights(relation, k, lifted.shape[1], alike, mean, rng)
    angles = np.zeros(n) if shift is None else shift.angles(n)
    before, after = (_products(lifted, weights, task) for weights in (start, heading))
    scores = np.cos(angles) * before + np.sin(angles) * after
    answer = KnownAnswer(start, heading, angles, scores, noise, features)

    dataset = DataSet(
        name="synthetic",
        X=X,
        y=answer.labels ^ (rng.random(n) < noise),
        tasks=_as_array(names)[task],
        description="A made stream with a known answer.",
        licence="none needed: made by this library",
        source=f"budgetron.data.synthetic.stream({said})",
        time_ordered=shift is not None,
    )
    return Synthetic(dataset, answer)


def _features(form: str, d: int, rng: np.random.Generator) -> Callable[[Any], Any]:
    """φ, with mean 0 over the instances where these are standard normal."""
    if form == "xor":
        return lambda X: X[:, 0 : d - 1 : 2] * X[:, 1:d:2]
    if form == "gaussian":
        frequencies = rng.normal(scale=np.sqrt(2.0 / d), size=(d, FOURIER_FEATURES))
        phases = rng.uniform(0.0, 2.0 * np.pi, size=FOURIER_FEATURES)
        mean = np.exp(-0.5 * (frequencies**2).sum(axis=0)) * np.cos(phases)
        return lambda X: np.sqrt(2.0) * (np.cos(X @ frequencies + phases) - mean)
    return lambda X: X


def _text(n: int, d: int, words: int, rng: np.random.Generator) -> tuple[Any, Floats]:
    """Word counts as CSR, the lower the column the more frequent the word, and the words' probabilities."""
    from scipy.sparse import csr_matrix

    frequency = _decreasing(d, 1.0)
    lengths = 1 + rng.poisson(words - 1, size=n)
    drawn = rng.choice(d, size=int(lengths.sum()), p=frequency)
    ends = np.concatenate([[0], np.cumsum(lengths)])
    X = csr_matrix((np.ones(len(drawn)), drawn, ends), shape=(n, d))
    X.sum_duplicates()
    return X, frequency


def _products(lifted: Any, weights: Floats, task: NDArray[np.int64]) -> Floats:
    """⟨weights of the example's task, φ(x)⟩, example by example."""
    if isinstance(lifted, np.ndarray):
        return np.asarray(np.einsum("ij,ij->i", lifted, weights[task]), dtype=np.float64)
    row = np.repeat(np.arange(lifted.shape[0]), np.diff(lifted.indptr))
    terms = lifted.data * weights[task[row], lifted.indices]
    return np.bincount(row, terms, minlength=lifted.shape[0]).astype(np.float64)


def _decreasing(count: int, power: float) -> Floats:
    """Probabilities proportional to 1, 2^−power, 3^−power, …"""
    mass = np.arange(1.0, count + 1.0) ** -power
    return np.asarray(mass / mass.sum(), dtype=np.float64)


def _names(n_tasks: int | None, graph: TaskGraph | None) -> list[Any]:
    named = None if graph is None else graph.tasks
    if named is None:
        stated = None if graph is None else graph.n_tasks
        return list(range(n_tasks or stated or 8))
    if n_tasks is not None and n_tasks != len(named):
        accepted = f"left out, or {len(named)} as in the graph"
        raise refuse("synthetic.stream", "n_tasks", accepted, shown(n_tasks))
    return list(named)


def _as_array(names: list[Any]) -> NDArray[Any]:
    if all(isinstance(name, int) for name in names) or all(isinstance(name, str) for name in names):
        return np.array(names)
    array = np.empty(len(names), dtype=object)
    array[:] = names
    return array


def _check(
    n: int,
    d: int,
    n_tasks: int | None,
    relatedness: float,
    noise: float,
    form: str,
    task_skew: float,
    words: int,
) -> None:
    who = "synthetic.stream"
    fewest = 2 if form in ("xor", "text") else 1
    tasks = 1 if n_tasks is None else n_tasks
    for name, count, least in (("n", n, 1), ("d", d, fewest), ("n_tasks", tasks, 1), ("words", words, 1)):
        if isinstance(count, bool) or not isinstance(count, int | np.integer) or count < least:
            raise refuse(who, name, f"an integer >= {least}", shown(count))
    if not 0 <= relatedness <= 1:
        raise refuse(who, "relatedness", "a number in [0, 1]", shown(relatedness))
    if not 0 <= noise <= 0.5:
        raise refuse(who, "noise", "a number in [0, 0.5]", shown(noise))
    if form not in _FORMS:
        raise refuse(who, "form", "one of " + ", ".join(_FORMS), shown(form))
    if not 0 <= task_skew < np.inf:
        raise refuse(who, "task_skew", "a number >= 0", shown(task_skew))
