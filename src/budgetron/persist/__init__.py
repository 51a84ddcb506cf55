"""Models on disk: one file, safetensors inside, that is checked in full before anything is made of it.

    model file = magic · format number · SHA-256 · safetensors payload

`disk` bytes to a folder and back, all or nothing · `container` bytes as one JSON text and named arrays ·
`schema` what the JSON may say, and nothing else · `names` tasks and labels as JSON · `parts` kernels and graphs ·
`layout` which arrays a learner has, and their shapes · `verify` what must be true of the numbers in them ·
`engines` settings and state of an engine, out and in.

Nothing here runs code from a file, allocates by a number in it before that number was checked, or knows a
learner: `budgetron.learners` puts the parts together.
"""

from __future__ import annotations

from budgetron.persist.container import FORMAT, packed, unpacked
from budgetron.persist.disk import read_bytes, replace_file
from budgetron.persist.schema import Saved

__all__ = ["FORMAT", "Saved", "packed", "read_bytes", "replace_file", "unpacked"]
