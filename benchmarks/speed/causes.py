"""Why a target is missed and what would help, by the beginning of the row's name. Shown only while it is missed."""

CAUSES = {
    "gaussian-d28-B100-": (
        "The part of Python around the core is largest here (see docs/speed.md): labels, tasks and codes are checked "
        "and converted once a block."
    ),
    "gaussian": "Over a budget that fits no inner cache, the rows come from memory, for us as for the yardstick.",
    "shared": (
        "On an eviction every task's row is handed over (`SharedProjectron::hand_over`), rows × B multiplications "
        "beside the B² of the inverse, up to `max_task_rows`. Once a row's own slot has left, the row is dense, and "
        "its value after m evictions is a product of m different projections. Doing that when it is next asked about "
        "costs m × B, or B² with the products kept, each time, and the choice of who leaves needs the norms of all "
        "rows at every eviction (or another B × B matrix): exactly flat is not to be had at 1.3 × of one pass over B²."
    ),
    "flagship-further-belief": (
        "Each belief's covariance is a triangle of its own, 4 MB at B=1000; once all of them together no longer fit "
        "the cache, a pass is limited by reading it from memory, while the yardstick's one matrix fits. Tried without "
        "gain: putting three updates off and writing the triangle only every third pass. One pass for several examples "
        "would halve the reading, but then answers would depend on where blocks are cut."
    ),
    "flagship": "Two passes an update: one over the covariance, one over the inverse Gram matrix for δ².",
    "linear-text": (
        "Every non-zero has two cells, shared and own, in a table larger than the inner caches. The ratio is of wall "
        "clocks, and Vowpal Wabbit has two threads: where other programs run (see the load average) it gets two shares."
    ),
    "text": (
        "The smaller the budget, the more of an example is what does not depend on it: checks and slicing in Python, "
        "looking up its features, and, where it is a mistake (two fifths of this stream), taking one row out of the "
        "index and putting one in. For the Gaussian kernel the exp over B comes on top, which the yardstick has not. "
        "Tried without gain: fewer or more dense columns, sending for the next row's features early."
    ),
    "tasks": (
        "With a million unrelated tasks nearly every margin is 0, and a margin of 0 is a mistake: twice as many are "
        "stored as with ten tasks. The rest is the look-up of a task's cluster."
    ),
    "graph-first-touch": (
        "Tasks of few neighbours are eliminated once; the rest is solved by conjugate gradients in double precision "
        "with the diagonal as preconditioner, one column at a time. A step reads every entry that is left and, in a "
        "random order, a vector that does not fit the first cache. A solver in single precision with symmetric "
        "Gauss-Seidel as preconditioner and refinement in double was about twice as fast on this row, in 550 lines "
        "more, and was removed."
    ),
    "learn-one": "Most of one call is checks, the task's key and locks in Python, not the core.",
    "two-cores": "Not conclusive where other programs run (see the load average): two threads need two free cores.",
    "start": "Forty small modules, and scikit-learn reads the signatures of every method of every learner.",
}


def cause_of(name: str) -> str:
    """The longest beginning that fits."""
    fitting = [start for start in CAUSES if name.startswith(start)]
    return CAUSES[max(fitting, key=len)] if fitting else ""
