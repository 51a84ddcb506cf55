"""Why a target is missed and what would help, by the beginning of the row's name. Shown only while it is missed."""

CAUSES = {
    "gaussian-d28-B100-": (
        "The part of Python around the core is largest here (see docs/speed.md): labels, tasks and codes are checked "
        "and converted once a block."
    ),
    "gaussian": (
        "The exp takes longer than the inner products: `gaussian<float>` in hot.cpp forms the distance in double and "
        "converts back. With the distance in float a trial was about 8 % faster in most, not all, of its rounds."
    ),
    "shared": (
        "On an eviction every task's row is handed over (`SharedProjectron::hand_over`), rows × B multiplications "
        "beside the B² of the inverse: the cost grows with the tasks that have a row, up to `max_task_rows`."
    ),
    "flagship-further-belief": (
        "Each belief's covariance is a triangle of its own; once all of them together no longer fit the cache, a pass "
        "is limited by memory, while the yardstick's one matrix still fits. It varies with what else is in the cache."
    ),
    "flagship": "Two passes an update: one over the covariance, one over the inverse Gram matrix for δ².",
    "linear-text": (
        "Every non-zero is hashed twice (shared and own cell) and touched three times (typical size, weights, "
        "variance), in double arithmetic, once for every belief."
    ),
    "text": (
        "Two fifths of this stream are mistakes, and these are as dear as the row itself (`erase`, `insert`, "
        "`compact_postings`). In the row, two thirds of `add_products` is the probing in `bucket_of`. Tried without "
        "gain: vectorised search of the posting, prefetch of index and headers."
    ),
    "tasks": (
        "Not the core, which holds no table, but Python: names of stored tasks are kept one by one, and the clusters "
        "of a mapping are found by binary search in an array of all tasks, which misses the cache."
    ),
    "graph-first-touch": (
        "A column of A⁻¹ is solved by conjugate gradients to 1e-14: some fifty products with a matrix whose vector "
        "does not fit the inner caches."
    ),
    "learn-one": "Most of one call is checks, the task's key and locks in Python, not the core.",
    "two-cores": "Not conclusive where other programs run (see the load average): two threads need two free cores.",
    "start": "Forty small modules, and scikit-learn reads the signatures of every method of every learner.",
}


def cause_of(name: str) -> str:
    """The longest beginning that fits."""
    fitting = [start for start in CAUSES if name.startswith(start)]
    return CAUSES[max(fitting, key=len)] if fitting else ""
