"""Files: reading NDJSON, a whole run over a CSV file of every kind of column, and the replay of a log after a crash.

The yardsticks read the same file with Python's own json and csv.
"""

from __future__ import annotations

import csv
import json
import tempfile
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from shutil import copytree

from measure import Row, compared
from mixed_records import mixed_records
from streams import noisy

from budgetron import Budgetron, evaluate, io
from budgetron.cli.labelled_stream import BLOCK_ROWS
from budgetron.durable import Host
from budgetron.durable.recovery import load_copy

NDJSON = Row(
    name="ndjson",
    work="NDJSON with numbers, categories, dates and text, per row",
    yardstick="json.loads per line",
    unit="×",
    reach=1.2,
    in_0_1=4.75,
)
RUN = Row(
    name="run-csv",
    work="a run over a CSV file with numbers, categories, dates and text, kernel=None, per row",
    yardstick="csv.reader over the file",
    unit="×",
    reach=4.5,
    in_0_1=18.8,
)
REPLAY = Row(
    name="replay",
    work="replay of a log after a crash, Budgetron, blocks of 100 rows, per row",
    yardstick="learning the blocks through the host, which writes the log",
    unit="×",
    reach=1.0,
)


def read_all(path: Path) -> None:
    with io.read(path) as stream:
        for _ in stream:
            pass


def run(path: Path) -> None:
    """What `budgetron run` does with a file: read, predict, count and learn."""
    validator = None
    with io.read(path, block_rows=BLOCK_ROWS) as stream:
        for block in stream:
            validator = validator or evaluate.Validator(Budgetron(kernel=None), classes=stream.classes)
            validator.add(block.X, block.y, block.tasks)
    assert validator is not None
    validator.finish()


def file_rows(repetitions: int, quick: bool) -> Iterator[Row]:
    times = 1 if quick else 4  # types are inferred once per file, which costs little in a long one
    records = mixed_records(8000 if quick else 40_000)
    n = times * len(records)
    with tempfile.TemporaryDirectory() as folder:
        lines, table = Path(folder) / "mixed.ndjson", Path(folder) / "mixed.csv"
        lines.write_text("".join(json.dumps(record) + "\n" for record in records) * times)
        with table.open("w", newline="") as file:
            writer = csv.DictWriter(file, list(records[0]))
            writer.writeheader()
            for _ in range(times):
                writer.writerows(records)

        def parse_lines() -> None:
            with lines.open("rb") as file:
                for line in file:
                    json.loads(line)

        def parse_table() -> None:
            with table.open(newline="") as file:
                for _ in csv.reader(file):
                    pass

        yield compared(NDJSON, lambda: read_all(lines), parse_lines, n, n, min(5, repetitions))
        yield compared(RUN, lambda: run(table), parse_table, n, n, min(5, repetitions))


def replay_rows(repetitions: int, quick: bool) -> Iterator[Row]:
    """The log is read and learned again as after a crash, without a snapshot."""
    n = 2000 if quick else 10_000
    stream = noisy(n)
    blocks = [stream[start : start + 100] for start in range(0, n, 100)]
    with tempfile.TemporaryDirectory() as folder:
        paths = (Path(folder) / str(number) for number in count())

        def learn_through_host() -> Path:
            """Learn all blocks, and return a copy of the directory as a crash would leave it."""
            path = next(paths)
            with Host.open(path, make_model=Budgetron, snapshot_every=10 * n) as host:
                for block in blocks:
                    host.learn(block.X, block.y, tasks=block.tasks, classes=[0, 1])
                copytree(path, path / "crashed")  # closing takes a snapshot, after which nothing is replayed
            return path / "crashed"

        crashed = learn_through_host()
        yield compared(REPLAY, lambda: load_copy(crashed), learn_through_host, n, n, min(5, repetitions))
