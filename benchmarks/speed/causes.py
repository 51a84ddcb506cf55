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
        "with 10,000 rows and B = 500. These rows were measured before the factors of eight rows were computed "
        "together and rows were prefetched a group ahead. Since then the ratio is 2.3 to 2.5 × instead of 2.8 × with "
        "1,000 tasks, and 7.4 to 8.3 × instead of 10 × with 100,000 (both versions in turns, on two cores with a load "
        "average above 10). The product now runs at about four fifths of the processor's peak rate of multiply-adds. "
        "According to perf, with 1,000 tasks it takes 36 % of the time, the pass over the inverse Gram matrix 27 % and "
        "the matrix of the norms 15 %. Tried without gain: tiles of eight rows, or of three and four registers. About "
        "18 of the 32 evicted slots of a batch are distinct. Merging the evictions of a slot would save two fifths of "
        "the multiplications, but then the last bits of the coefficients would depend on when the model is saved. With "
        "at most B rows (139 tasks), each eviction changes all rows and adds up their squares at once. That loop takes "
        "a quarter of the time. Its rows (560 KB) and the inverse Gram matrix (1 MB) do not fit into the second cache "
        "together. Setting numbers below 1e-300 to 0, which version 0.1 did not do, takes 2 % of the time. Changing "
        "two to eight rows at a time, or some columns of all rows at a time, is slower, probably because rows of 4,000 "
        "bytes compete for the same lines of the first cache. Not implemented, for 10,000 rows: a log of several times "
        "B evictions as one B × B matrix. By our estimate it would need half of the multiplications there, and no "
        "fewer with 1,000 rows, for B² more numbers in memory and a second kind of log."
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
        "Of 8.6 µs per row, on two cores with a load average above 10, the core's learning takes 50 %, reading and "
        "encoding columns 25 % (of which the reader 6 % and hashing 7 %), counting errors 13 %, and checking and "
        "cutting blocks 6 %. Inferring the types of the columns takes 3 %, and the final figures 2 %. At this load, "
        "the core's learning alone takes as long as the target allows. It reads cells of a hashed table in random "
        "order, so it suffers most when other programs use the shared cache. After it, the interpreter finds little of "
        "its own in the caches: the same counting takes half the time in a loop of its own. Not implemented: reading "
        "the next block in another thread while this one is learned. The means and deviations of the columns would "
        "then be ahead of the model, and a run that is stopped could not be continued bit for bit. Also not "
        "implemented: ranking the windows of the curve sixteen at a time, which would save 3 % for 75 lines of code. "
        "This row was measured before two changes. The reader finds distinct texts with an open hash table and hashes "
        "words without divisions: 13 % less processor time for the complete run (8.7 and 7.5 µs, with less other work "
        "6.6 and 6.0 µs: 166,000 rows per second). Then errors were counted and blocks checked in fewer passes: 7 % "
        "less (9.7 and 8.9 µs, four runs of each version in turns, with a load average of 17)."
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
