"""Files as streams: CSV, TSV, Parquet, Arrow, NDJSON, svmlight and Vowpal Wabbit text, read once, in bounded memory.

    bytes → `source` (packed or not) → a reader of the format → `table` (numbers, coded text) → `columns` → X, y, tasks

`guess` says what the columns are, from the first rows; `columns` keeps it for the model; `encode`, `scaling` make X.
"""

from __future__ import annotations

from budgetron.io.columns import Block, Columns, Described
from budgetron.io.model_files import columns_of, load_model, save_model
from budgetron.io.stream import Stream, read
from budgetron.io.table import BadLine

__all__ = ["BadLine", "Block", "Columns", "Described", "Stream", "columns_of", "load_model", "read", "save_model"]
