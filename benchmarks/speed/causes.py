"""Why a target is missed, and what would help. `report.py` shows these texts for the rows that missed their targets."""

# The beginning of a row's name → the cause.
CAUSES = {
    "gaussian-d28-B100-": (
        "The share of Python around the core is largest here (see docs/speed.md): labels, tasks and codes are checked "
        "and converted once per block."
    ),
    "gaussian": "Stored rows that do not fit into the inner caches are read from memory, as for the yardstick.",
    "shared": (
        "An eviction changes the weights of all tasks that have a row, at most `max_task_rows`. That is rows × B "
        "multiplications, in addition to B² for the inverse Gram matrix and B² for the matrix of the norms. With more "
        "than B rows, 32 evictions are applied in one blocked product, which reads and writes all rows once: 40 MB "
        "with 10,000 rows and B = 500. According to perf, this product takes 78 % of the time with 100,000 tasks and "
        "45 % with 1,000, where the matrix of the norms takes another 15 %. It runs at about two thirds of the "
        "processor's peak rate of multiply-adds. Tried without gain: eight rows at a time, wider blocks, tiles of 16 "
        "and 32 rows. With at most B rows (139 tasks), each eviction changes all rows and adds up their squares at "
        "once. That loop takes a fifth to a quarter of the core's time; its rows (560 KB) fit only into the second "
        "cache. Changing four rows at a time, so that they share the loads and stores of the sums, was not faster. "
        "Not implemented, for 10,000 rows: a log of several times B evictions as one B × B matrix. By our estimate it "
        "would need half of the multiplications there, and no fewer with 1,000 rows, for B² more numbers in memory "
        "and a second kind of log."
    ),
    "shared-graph": (
        "Beside one product with A⁻¹, a mistake reads all rows twice: to distribute the weight of the evicted example, "
        "and for the inner products of the row that changes. A margin reads them once more."
    ),
    "forgetron": "On a mistake it computes the kernel row of the evicted example, one row at a time.",
    "linear-text": (
        "Every non-zero feature reads two cells, of its shared and of its own weight, in a table larger than the inner "
        "caches. The ratio is one of wall-clock times. Vowpal Wabbit has two threads, which is an advantage on a busy "
        "machine (see the load average)."
    ),
    "text": (
        "With small budgets, most of the time does not depend on the budget: checks and slicing in Python, looking up "
        "features, and after a mistake (two fifths of the stream) removing one row from the index and adding another. "
        "The Gaussian kernel also computes exp for B values, which the yardstick does not. Tried without gain: fewer "
        "or more dense columns, prefetching the features of the next row. These rows were measured when a feature was "
        "hashed by two keyed rounds for each prefetch and each search. That took 1.28 to 1.34 times the processor "
        "time of version 0.1 with B = 1000, and 1.14 to 1.29 times with B = 5000. Now it is hashed once, by a shorter "
        "hash with a secret factor: 1.03 to 1.05 times with B = 1000, 1.00 to 1.10 times with B = 5000 (both versions "
        "interleaved in one run, on a busy machine). The larger table, which is reserved before a block is learned, "
        "made no difference."
    ),
    "tasks": (
        "With a million unrelated tasks nearly every margin is 0, and a margin of 0 is a mistake: twice as many "
        "examples are stored as with ten tasks. The rest is looking up the cluster of a task."
    ),
    "graph-first-touch": (
        "Tasks with few neighbours are eliminated once. The rest is solved by conjugate gradients in double precision "
        "with the diagonal as preconditioner, one column at a time. Each step reads all remaining entries of the "
        "matrix and, in random order, a vector that does not fit into the first cache. Version 0.1 had a solver in "
        "single precision with symmetric Gauss-Seidel as preconditioner, which also solved several columns together. "
        "It was three times as fast, but was removed because it took 550 lines of code."
    ),
    "learn-one": "Most of one call is the interpreter around it: the call with keywords, and the model's lock.",
    "run-csv": (
        "Of 7.5 µs per row, on a busy machine, the core's learning takes 40 %, reading and encoding columns 25 % (of "
        "which the reader 7 % and hashing 8 %), counting errors 18 %, and checking rows and tasks 7 %. Inferring the "
        "types of the columns and cutting blocks at the ends of windows take 3 % each, and no other part more. The "
        "core's learning alone takes about two thirds of the time that the target allows. It reads cells of a hashed "
        "table in random order, so it suffers most when other programs use the shared cache. Not implemented: reading "
        "the next block in another thread while this one is learned. The means and deviations of the columns would "
        "then be ahead of the model, and a run that is stopped could not be continued bit for bit. This row was "
        "measured before the reader found distinct texts with an open hash table and hashed words without divisions. "
        "Since then reading and encoding take 26 % less processor time and the complete run 13 % less (8.7 and 7.5 "
        "µs, five runs of each version in turns, on two cores with a load average above 10). With less other work, "
        "the same file took 6.6 and then 6.0 µs per row: 166,000 rows per second."
    ),
    "replay": "A block of the log is decoded and checked as a new one is.",
    "two-cores": "Not conclusive on a busy machine (see the load average): two threads need two free cores.",
    "start-after-crash": (
        "scikit-learn, which every learner is an estimator of, imports scipy.stats and pandas; that is four fifths of "
        "the imports. The rest is our modules, the snapshot, and learning the rows of the log again."
    ),
    "start": "Forty small modules, and scikit-learn inspects the signatures of all methods of all learners.",
}


def cause_of(name: str) -> str:
    """The cause with the longest matching beginning."""
    fitting = [start for start in CAUSES if name.startswith(start)]
    return CAUSES[max(fitting, key=len)] if fitting else ""
