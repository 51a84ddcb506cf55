"""Read files as streams of examples: CSV, TSV, Parquet, Arrow, NDJSON, svmlight and Vowpal Wabbit text.

    bytes → `source` (decompression) → reader of the format → `table` (numbers, coded text) → `columns` → X, y, tasks

`read` opens a file for one pass in bounded memory. `infer_types` infers the type of each column from the first rows;
`columns` holds these types and is saved with the model; `encode` and `running_scale` turn rows into X.

The command line reads its files through this package, and the service encodes records with `columns`. A stream must
never hold more rows than the sample of first rows or one block of rows. It must never pass on a row that it could not
parse; it reports such a row as a `BadLine`.
"""

from __future__ import annotations

from budgetron.io.encoding.columns import Block, Columns, ColumnSummary
from budgetron.io.model_files import columns_of, load_model, save_model
from budgetron.io.stream import Stream, read
from budgetron.io.table import BadLine

__all__ = ["BadLine", "Block", "ColumnSummary", "Columns", "Stream", "columns_of", "load_model", "read", "save_model"]
