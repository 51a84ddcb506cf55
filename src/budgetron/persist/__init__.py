"""The format of model files: one file per model, a safetensors payload, validated in full before it is used.

    model file = magic · format number · SHA-256 · safetensors payload

    disk         atomic replacement of a file, and bounded reading
    container    the bytes of a file as one JSON text and named arrays
    schema       the JSON text: names, types and ranges
    names        tasks and labels as JSON
    parts        kernels and graphs
    columns      the columns of the files that a model learned from
    verify       validation of the stored examples
    engines      settings and state of an engine, as its rule declares them

`budgetron.learners` calls these modules to save and load. They must never import a learner, run code from a file, or
use a number from a file as the size of an allocation before validating it.
"""

from __future__ import annotations

from budgetron.persist.container import FORMAT, pack, unpack
from budgetron.persist.disk import read_bytes, replace_file
from budgetron.persist.schema import ModelRecord

__all__ = ["FORMAT", "ModelRecord", "pack", "read_bytes", "replace_file", "unpack"]
