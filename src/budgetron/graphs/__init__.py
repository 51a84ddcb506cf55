"""Task graphs: which tasks are related, and how much an example of one task counts for another.

    K([x, i], [x', j]) = (A⁻¹)_ij K'(x, x'),   A = I + L,   L the Laplacian of the task graph

x and x' are the features of two examples, i and j their tasks, K' the kernel of the learner. If the number of tasks is
unknown, A⁻¹ is scaled so that the similarity of a task to itself is 1 (`closed`). `from_laplacian` accepts other
matrices as L, and `from_similarity` other matrices as A⁻¹.

Graphs in closed form (`complete`, `disconnected`, `clusters`) accept any number of tasks, and new tasks may appear at
any time. Explicit graphs (`from_edges`, `from_networkx`, `from_laplacian`, `from_similarity`) have a fixed list of
tasks. Graphs are immutable, compare by content, and can be pickled and copied.

>>> from budgetron import graphs
>>> graphs.complete().similarity("ann", "bob")
0.5
>>> graph = graphs.from_edges([("ann", "bob"), ("bob", "cid")], tasks=["dan"])
>>> [round(graph.similarity("ann", task), 3) for task in ("ann", "bob", "cid", "dan")]
[0.625, 0.25, 0.125, 0.0]
>>> graph.components()
[['dan'], ['ann', 'bob', 'cid']]
"""

from __future__ import annotations

from budgetron.graphs.closed import Clique, clusters, complete, disconnected
from budgetron.graphs.construct import from_edges, from_laplacian, from_networkx, from_similarity
from budgetron.graphs.explicit import DENSE_LIMIT, Explicit
from budgetron.graphs.factor import Factor, factor_of
from budgetron.graphs.resistance import (
    relatedness,
    resistance_distances,
    similarities_from_resistances,
    similarity_matrix,
)
from budgetron.graphs.saved import from_description
from budgetron.graphs.taskgraph import TaskGraph

__all__ = [
    "DENSE_LIMIT",
    "Clique",
    "Explicit",
    "Factor",
    "TaskGraph",
    "clusters",
    "complete",
    "disconnected",
    "factor_of",
    "from_description",
    "from_edges",
    "from_laplacian",
    "from_networkx",
    "from_similarity",
    "relatedness",
    "resistance_distances",
    "similarities_from_resistances",
    "similarity_matrix",
]
