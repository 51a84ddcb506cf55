"""The bytes of a model file: one JSON text and named arrays, under a format number and a digest.

    0   8 bytes    magic, 8F "Budget" 0A
    8   8 bytes    format number, unsigned, little-endian: 2, or 1 in older files (`engines` reads their settings)
    16  32 bytes   SHA-256 of all bytes except these 32: bytes 0 to 15, then byte 48 to the end
    48  …          a safetensors payload; tensor "model" (U8) is the JSON text, all others are numbers

The header has no length field that could be wrong: the payload is the rest of the file, and safetensors checks its own
offsets against it. The digest finds damage, not tampering: an attacker can compute it, so all content is validated too.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load, save

from budgetron.file_errors import invalid, require

MAGIC = b"\x8fBudget\n"
FORMAT = 2
JSON = "model"
_START = 48
_USE_ANOTHER_COPY = "It was changed or truncated: use another copy."
_DTYPES = frozenset({"float64", "float32", "int64", "int32", "uint64", "uint8"})

Arrays = Mapping[str, NDArray[Any]]


def pack(text: bytes, arrays: Arrays) -> bytes:
    """Return the bytes of a model file with this text and these arrays."""
    tensors = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
    payload = save({**tensors, JSON: np.frombuffer(text, dtype=np.uint8)})
    head = MAGIC + FORMAT.to_bytes(8, "little")
    digest = sha256(head)
    digest.update(payload)
    return b"".join((head, digest.digest(), payload))


def unpack(content: bytes) -> tuple[bytes, dict[str, NDArray[Any]]]:
    """Split the bytes of a model file into its text and arrays."""
    if content[:8] != MAGIC:
        raise invalid("the file", "a Budgetron model", f"{len(content)} bytes that begin with {content[:8]!r}",
                  "Such files are written by save() and by: budgetron run --save")
    number = int.from_bytes(content[8:16], "little")
    if len(content) >= _START and not 1 <= number <= FORMAT:
        remedy = "A newer budgetron may read it." if number > FORMAT else _USE_ANOTHER_COPY
        raise invalid("the file", f"of format 1 to {FORMAT}", f"format {number}", remedy)
    # The digest is checked after the format number, because a later format may have its digest elsewhere.
    digest = sha256(content[:16])
    digest.update(memoryview(content)[_START:])
    if digest.digest() != content[16:_START]:
        raise invalid("the file", "unchanged since it was saved", "content that does not match its SHA-256 checksum",
                  _USE_ANOTHER_COPY)
    arrays = _tensors(content[_START:])
    text = arrays.pop(JSON, None)
    if text is None or text.dtype != np.uint8 or text.ndim != 1:
        raise invalid("the file", f"with a tensor {JSON!r} of bytes", "none")
    return text.tobytes(), arrays


def _tensors(payload: bytes) -> dict[str, NDArray[Any]]:
    """Decode the safetensors payload, and accept only arrays of known dtypes."""
    try:
        arrays: dict[str, NDArray[Any]] = load(payload)
    except (SafetensorError, KeyError, ValueError, TypeError, OverflowError, AttributeError) as error:
        raise invalid("the payload", "in safetensors form", f"other bytes ({error})") from None
    for name, array in arrays.items():
        dtype = array.dtype.name
        require(dtype in _DTYPES, f"tensor {name[:60]!r}", f"of dtype {', '.join(sorted(_DTYPES))}", dtype)
    return arrays
