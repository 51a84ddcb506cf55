"""Streams of related tasks have the documented structure, and equal seeds give equal streams."""

from __future__ import annotations

import numpy as np

from budgetron.data import synthetic


def test_tasks_of_one_kind_are_similar_and_tasks_of_different_kinds_are_not() -> None:
    dataset, weights = generated = synthetic.kinds(seed=3)
    assert dataset.X.shape == (6000, 10) and weights.shape == (40, 10)
    same_kind = np.arange(40)[:, None] % 4 == np.arange(40) % 4
    assert generated.similarity[same_kind].min() > 0.6 and abs(generated.similarity[~same_kind]).mean() < 0.5
    again = synthetic.kinds(seed=3).dataset
    assert np.array_equal(dataset.X, again.X) and np.array_equal(dataset.y, again.y)
    assert ((dataset.X * weights[dataset.tasks]).sum(axis=1) > 0).mean() > 0.3
    assert (((dataset.X * weights[dataset.tasks]).sum(axis=1) > 0) == dataset.y).mean() > 0.9


def test_neighbours_on_the_grid_are_similar() -> None:
    _, weights = generated = synthetic.grid(side=6, seed=1)
    near = np.mean([generated.similarity[pair] for pair in synthetic.grid_edges(6)])
    assert weights.shape == (36, 10) and near > 0.5 > generated.similarity[0, 35]
    assert synthetic.grid_graph(6).n_tasks == 36


def test_opposed_tasks_have_opposite_weights() -> None:
    dataset, weights = generated = synthetic.opposed(seed=5)
    assert np.allclose(generated.similarity, [[1, -1, 0], [-1, 1, 0], [0, 0, 1]])
    assert np.bincount(dataset.tasks).tolist() == [100, 100, 100]
    assert np.allclose(np.linalg.norm(dataset.X, axis=1), 1)
    assert (((dataset.X * weights[dataset.tasks]).sum(axis=1) > 0) == dataset.y).all()
