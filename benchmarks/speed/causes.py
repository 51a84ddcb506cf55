"""Why a target is missed, and what would help. `report.py` shows these texts for the rows that missed their targets."""

# The beginning of a row's name → the cause: one paragraph, or several points, which `report.py` shows as a list.
CAUSES: dict[str, str | list[str]] = {
    "gaussian-d28-B100-": (
        "The share of Python around the core is largest here (see docs/speed.md): labels, tasks and codes are checked "
        "and converted once per block."
    ),
    "gaussian": "Stored rows that do not fit into the inner caches are read from memory, as for the yardstick.",
    "shared": [
        "An eviction changes the weights of all tasks that have a row, at most `max_task_rows`. That is rows × B "
        "multiplications, in addition to B² for the inverse Gram matrix and, with more than B rows, B² for the "
        "matrix of the norms.",
        "With 139 tasks and B = 500, the pass over the inverse Gram matrix takes 60 % of the core's time (perf). "
        "Changing the rows and adding up their squares takes 21 %, and the rule itself, mostly choosing the "
        "example to evict, 9 %. The rows (560 KB) and the inverse Gram matrix (1 MB) together do not fit into the "
        "second cache (1 MB).",
        "The ratio depends on the machine. Where processes of both versions took turns (the last table of RESULTS.md), "
        "139 tasks took 1.32 × the time of four tasks in version 0.1 and 1.39 × in this version on one machine, and "
        "1.30 to 1.33 × and 1.29 to 1.31 × on another one.",
        "With 1,000 tasks and more, evictions wait as one vector per evicted slot. They are applied to all rows "
        "in one blocked product when there are 48 of them, or when too many rows were updated since the last "
        "time. A slot that is evicted again needs no further vector: of 32 evictions, about 18 are of different "
        "slots. The product runs at about nine tenths of the processor's peak rate of multiply-adds.",
        "With 1,000 tasks, the pass over the inverse Gram matrix takes 36 % of the core's time, the product 28 %, "
        "the matrix of the norms 15 %, the rule itself 8 %, and changing the waiting vectors and the updated rows "
        "4 %. With 10,000 rows, the product takes 54 %, the inverse Gram matrix 23 % and the matrix of the norms "
        "12 % (perf).",
        "Tried without gain with 139 tasks: prefetching the row that is one to three ahead, and non-temporal "
        "prefetches; twelve registers per row instead of eight; two to eight whole rows at a time.",
        "Tried without gain with 1,000 tasks: 16 to 64 slots and 32 to 128 updated rows (within 5 % of each "
        "other); tiles of six and eight rows, or of three and four registers; the same columns of 8 to 32 rows "
        "before the next columns; shares that begin at cache lines.",
        "Not implemented: two evictions in one pass over the matrix of the norms. By our estimate this would save "
        "4 % with 1,000 tasks, for about 40 lines of code.",
    ],
    "shared-graph": (
        "Beside one product with A⁻¹, a mistake reads all rows twice: to distribute the weight of the evicted example, "
        "and for the inner products of the row that changes. A margin reads them once more."
    ),
    "forgetron": "On a mistake the Forgetron computes the kernel row of the evicted example, one row at a time.",
    "linear-text": [
        "This row is measured in wall-clock time. Vowpal Wabbit reads the file in a second thread: if both cores are "
        "free, its processor time is about twice its wall-clock time. Budgetron learns in one thread, and its "
        "processor time is about that of Vowpal Wabbit.",
        "A row has 126 non-zero features. Each has two cells in the table, one for its shared weight and one for its "
        "own weight. A cell has the weights of two beliefs, the typical size of the feature and its masses per class.",
        "Where the time of the core goes (perf): finding the cells and computing the values of the features 52 %, the "
        "steps of the weights and the statistics 22 %, counting the features 12 %, the margins 9 %.",
        "The speed of the memory is not the reason. With 500 distinct features, whose cells fit into the second cache, "
        "a row takes nearly as long.",
        "Tried without gain: prefetching the cells of the next row while this one is learned; computing the roots and "
        "quotients of both beliefs in one register.",
        "Not done: cells of 32 bytes instead of 28, none of which would lie in two cache lines. They would change "
        "which features fit into a budget.",
    ],
    "text": [
        "With small budgets, most of the time does not depend on the budget. It is spent on checks and slicing in "
        "Python, on looking up features, and after a mistake (two fifths of the stream) on removing one row from the "
        "index and adding another.",
        "The Gaussian kernel also computes exp for B values, which the yardstick does not.",
        "Tried without gain: fewer or more dense columns; prefetching the features of the next row.",
    ],
    "tasks": (
        "With a million unrelated tasks nearly every margin is 0, and a margin of 0 is a mistake: twice as many "
        "examples are stored as with ten tasks. The rest is looking up the cluster of a task."
    ),
    "graph-first-touch": [
        "Tasks with few neighbours are eliminated once. The rest is solved by conjugate gradients in double precision "
        "with the diagonal as preconditioner, one column at a time.",
        "Each step reads all remaining entries of the matrix and, in random order, a vector that does not fit into the "
        "first cache.",
        "Version 0.1 had a solver in single precision with symmetric Gauss-Seidel as preconditioner, which also solved "
        "several columns together. It was two to nine times as fast, but took 550 lines of code.",
    ],
    "learn-one": "Most of one call is the interpreter around it: the call with keywords, and the model's lock.",
    "run-csv": [
        "Where the time goes: learning in the core 43 %, reading and encoding columns 29 %, counting errors "
        "15 %, checking and cutting blocks 6 %, inferring the types of the columns 4 %, the final figures 1 %.",
        "A row has 27 non-zero features. Of the time in the table of their weights, finding their cells takes 38 %, "
        "counting features and evicting cells 28 %, the steps 21 % and the margins 13 %.",
        "The target is 4.5 times the yardstick for all of this. Learning alone takes 2.6 times the yardstick.",
        "Tried without gain: prefetching the cells of the next row.",
        "Not implemented: reading the next block in another thread while this one is learned. The means and deviations "
        "of the columns would then be ahead of the model, and a run that is stopped could not be continued bit for "
        "bit.",
        "Not implemented: ranking the windows of the curve sixteen at a time, which would save 3 % for 75 lines of "
        "code.",
    ],
    "replay": "A block of the log is decoded and checked as a new one is.",
    "two-cores": "Not conclusive on a busy machine (see the load average): two threads need two free cores.",
    "start-after-crash": (
        "scikit-learn, which every learner is an estimator of, imports scipy.stats and pandas; that is four fifths of "
        "the imports. The rest is our modules, the snapshot, and learning the rows of the log again."
    ),
    "start": "Forty small modules, and scikit-learn inspects the signatures of all methods of all learners.",
}

_SOLVER = (
    "The solver of version 0.1, in single precision and for several columns together, was removed because it took 550 "
    "lines of code."
)
_SPARSE = (
    "The hash of the features has one more round of mixing. A build without it was measured against this one: without "
    "it, these rows take 2 to 6 % less time, and the first rows of a new model 9 % less. But then, for one secret "
    "factor in twenty, features in arithmetic progression need 5 to 500 probes on average; with it, at most 3."
)
# The beginning of a row's work in two_builds.json → why it is slower than in version 0.1.
SLOWER = {
    "the same, first touch of a task": _SOLVER,
    "the same, each of 40 new tasks in one block": _SOLVER,
    "learn_one, Budgetron": "Version 0.1 had another learner of this name, with fewer models.",
    "mtrbp on sparse": _SPARSE,
    "a process that": (
        "Nine tenths of the time are the import of scikit-learn, which differs by up to a third between environments "
        "with the same versions, and is the same for both builds."
    ),
}


def why_slower(work: str) -> str:
    return next((reason for start, reason in SLOWER.items() if work.startswith(start)), "Not explained.")


def cause_of(name: str) -> list[str]:
    """The points of the cause with the longest matching beginning."""
    fitting = [start for start in CAUSES if name.startswith(start)]
    cause = CAUSES[max(fitting, key=len)] if fitting else []
    return [cause] if isinstance(cause, str) else cause
