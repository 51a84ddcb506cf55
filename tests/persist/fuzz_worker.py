"""Change model files at random and load them, under a memory limit. `test_fuzz` runs this in a separate process.

    python fuzz_worker.py bytes|contents FOLDER FIRST COUNT

`bytes` changes bytes of the files: each file must be rejected. `contents` changes what the files contain and corrects
the digest: each file must be rejected, or be a model that predicts and learns. The current file is FOLDER/now, so that
it remains after a crash. Prints how many files were rejected and how many accepted.
"""

from __future__ import annotations

import copy
import json
import random
import resource
import sys
import time
import warnings
from hashlib import sha256
from pathlib import Path

import numpy as np
from scipy import sparse

import budgetron
from budgetron import io
from budgetron.errors import InputError, ModelFileError
from budgetron.persist.container import JSON, pack, unpack

MEMORY_LIMIT = 512 * 2**20  # bytes that loading a file and using its model may allocate
MAX_BYTES = "32 MiB"
MAX_RATIO = 50  # the most processor time that one file may take, relative to the slowest unchanged file
NUMBERS = [0, 1, -1, 2, 3, 5, 16, 255, 2**31 - 1, 2**31, 2**32, 2**53, 2**62, 2**63 - 1, -(2**63), 2**64, 10**30, 0.5,
           -0.5, 1e-300, 1e150, 1e308, -1e308, 5e-324]  # fmt: skip
OTHERS = [None, True, False, "", "scale", "inf", "NaN", "auto", "numpy", "Budgetron", "float32", "O", "<U9999999",
          "<i8", [], {}, [[]], [1], ["tuple"], ["date", "x"], ["fraction", [1, 0]],
          ["decimal", "1e999999999"], ["a"] * 300]  # fmt: skip


def changed_bytes(rng, content):
    """The file with some of its bytes changed, moved, removed or added."""
    data = bytearray(content)
    kind = rng.randrange(7)
    at = rng.choice([rng.randrange(len(data)), rng.randrange(min(len(data), 2000))])
    if kind == 0:
        for _ in range(rng.choice([1, 1, 1, 2, 8])):
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    elif kind == 1:
        del data[at:]
    elif kind == 2:
        data += rng.randbytes(rng.choice([1, 8, 100]))
    elif kind == 3:
        length = rng.randrange(1, 64)
        data[at : at + length] = rng.randbytes(length)
    elif kind == 4:  # the format number, or the length of the safetensors header
        start = rng.choice([8, 48, 48, 48])
        length = rng.choice([0, 1, 2**31, 2**63, 2**64 - 1, len(data), rng.getrandbits(64)])
        data[start : start + 8] = length.to_bytes(8, "little")
    elif kind == 5:
        size = rng.randrange(1, 256)
        a, b = sorted(rng.sample(range(len(data)), 2))
        data[a : a + size], data[b : b + size] = data[b : b + size], data[a : a + size]
    else:
        del data[at : at + rng.randrange(1, 64)]
    return bytes(data) if bytes(data) != content else content + b"\0"


def json_paths(value, path=()):
    """The path of a JSON value and of the values inside it, of at most 40 per list. A path has keys and indices."""
    yield path
    for name, part in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        if not isinstance(name, int) or name < 40:
            yield from json_paths(part, (*path, name))


def change_json(rng, record):
    """Change, delete, repeat or add a random value of the JSON record, in place."""
    *path, last = rng.choice([path for path in json_paths(record) if path])
    parent = record
    for name in path:
        parent = parent[name]
    kind = rng.randrange(6)
    if kind == 0 and isinstance(parent, dict):
        parent["more"] = copy.deepcopy(rng.choice(OTHERS))
    elif kind == 1:
        del parent[last]
    elif kind == 2 and isinstance(parent, list):
        parent.append(copy.deepcopy(rng.choice(parent)))
        rng.shuffle(parent)
    elif isinstance(parent[last], (int, float)) and kind < 5:
        parent[last] = rng.choice([*NUMBERS, parent[last] + 1, parent[last] - 1, parent[last] * 2, not parent[last]])
    else:
        parent[last] = copy.deepcopy(rng.choice(NUMBERS + OTHERS))


def change_arrays(rng, arrays):
    """Change the entries, shape, dtype or name of a random array of the dict, or delete the array."""
    name = rng.choice(sorted(arrays))
    array = arrays[name].copy()
    kind = rng.randrange(10)
    if kind < 5 and array.size:
        values = NUMBERS[:17] if array.dtype.kind in "iu" else [*NUMBERS[:12], *NUMBERS[17:], np.nan, np.inf, -np.inf]
        flat = array.reshape(-1)
        for _ in range(rng.choice([1, 1, 3, array.size])):
            another = flat[rng.randrange(array.size)].item()
            value = rng.choice([*values, another, -another])
            flat[rng.randrange(array.size)] = value if fits(value, array.dtype) else 0
    elif kind == 5:
        array = array[: rng.randrange(len(array) + 1)]
    elif kind == 6:
        array = np.concatenate([array, array[:1]])
    elif kind == 7:
        array = rng.choice([array.reshape(-1), array.T, array[None], array[::-1], np.zeros_like(array)])
    elif kind == 8:
        array = array.astype(rng.choice(["float32", "float64", "int32", "int64", "uint8", "uint64"]))
    else:
        other = rng.choice(sorted(arrays))
        if rng.random() < 0.5:
            del arrays[name]
            return
        name, array = rng.choice([(other, array), (name + "x", array), ("state." + other, array)])
    arrays[name] = np.ascontiguousarray(array)


def fits(value, dtype):
    """Whether an array of this dtype can have the value."""
    if dtype.kind == "f":
        return True
    return isinstance(value, int) and np.iinfo(dtype).min <= value <= np.iinfo(dtype).max


def changed_contents(rng, content):
    """The file with changed content and a correct digest."""
    text, arrays = unpack(content)
    record = json.loads(text)
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            change_json(rng, record) if rng.random() < 0.5 else change_arrays(rng, arrays)
    if rng.random() < 0.1:  # change the safetensors payload, which begins at byte 48 (see `persist.container`)
        whole = pack(json.dumps(record).encode(), arrays)
        payload = changed_bytes(rng, whole[48:])
        return whole[:16] + sha256(whole[:16] + payload).digest() + payload
    arrays.pop(JSON, None)
    return pack(json.dumps(record).encode(), arrays)


def use_model(model):
    """Predict, and with the core learn a little. Wrong weights may give any margin, but no crash."""
    settings, graph = model._engine.settings, model._engine.settings.graph
    rng = np.random.default_rng(0)
    width = min(settings.n_features, 64)
    X = rng.normal(size=(24, width if settings.sparse else settings.n_features))
    if settings.sparse:
        indices, indptr = np.tile(np.arange(width), 24), np.arange(0, 24 * width + 1, width)
        X = sparse.csr_matrix((X.ravel(), indices, indptr), (24, settings.n_features))
    known = graph.tasks or [f"new {i}" for i in range(5)]
    tasks = [known[i % len(known)] for i in range(24)]
    model.set_params(task_column=None)
    model.decision_function(X, tasks=tasks)
    model.predict(X[:3], tasks=tasks[:3])
    _ = model.active_set_, model.budget_share_, model.memory_bytes_, repr(model)
    columns = io.columns_of(model)
    if columns is not None and columns.plan.layout == "table":
        records = [{"size": 3, "colour": "red", "more": None}, {"size": None, "colour": "x", "more": "2024-02-29"}]
        for learn in (False, True):
            try:
                encoded = columns.encode(records, learn)
            except InputError:  # a column of another type
                continue
            values = encoded.data if sparse.issparse(encoded) else encoded
            assert encoded.shape == (2, settings.n_features) and np.isfinite(values).all()
        _ = columns.describe(), repr(columns)
    if model.engine == "numpy":
        return
    try:
        model.partial_fit(X, model.classes_[np.arange(24) % len(model.classes_)], tasks=tasks)
        model.decision_function(X, tasks=tasks)
    except InputError:  # a row that is too long for its pool, an invalid weight
        pass


def limit_memory():
    """Let this process allocate only `MEMORY_LIMIT` more bytes, on systems that tell how much it uses already."""
    if not Path("/proc/self/statm").exists():  # macOS
        return
    with open("/proc/self/statm") as file:
        used_bytes = int(file.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used_bytes + MEMORY_LIMIT, used_bytes + MEMORY_LIMIT))


def main(kind, folder, first, count):
    warnings.simplefilter("ignore")
    folder = Path(folder)
    contents = [path.read_bytes() for path in sorted(folder.glob("*.budgetron"))]
    reference = 0.0
    for path in sorted(folder.glob("*.budgetron")):
        started = time.process_time()
        use_model(budgetron.load(path))
        reference = max(reference, time.process_time() - started)
    limit_memory()
    now, rejected, accepted = folder / "now", 0, 0
    for number in range(first, first + count):
        rng = random.Random(number)
        content = rng.choice(contents)
        now.write_bytes((changed_bytes if kind == "bytes" else changed_contents)(rng, content))
        engine = rng.choice([None, None, None, "numpy"])
        started = time.process_time()
        try:
            model = budgetron.load(now, max_bytes=MAX_BYTES, engine=engine)
        except ModelFileError as error:
            assert str(error).startswith("load: ") and " must be " in str(error) and "; got " in str(error), error
            rejected += 1
        else:
            assert kind == "contents", f"number {number} was accepted"
            use_model(model)
            accepted += 1
        ratio = (time.process_time() - started) / reference
        assert ratio < MAX_RATIO, f"number {number} took {ratio:.0f} times as long as the slowest unchanged file"
    now.unlink(missing_ok=True)
    print(json.dumps({"rejected": rejected, "accepted": accepted}))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))
