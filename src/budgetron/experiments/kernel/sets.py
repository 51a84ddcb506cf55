"""The six data sets of the tables. Every copy is verified by the SHA-256 of its content.

A folder (`--from` or $BUDGETRON_DATA) may contain NAME.npz with the arrays X, y and orders, or NAME.mat as in the
public code of the study. That code includes four of the data sets; they are downloaded from a fixed commit. The other
two are in an archive that must be unpacked by hand. Columns are as in these files: german and spambase are not scaled.
"""

from __future__ import annotations

import hashlib
import io
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from budgetron.data.files import DataCorrupt, DataUnavailable, cache_folder, import_extra, mirrored, own_folder
from budgetron.errors import input_error, shown

_COMMIT = "b7451c08e8f691824b296ffffbb02048bbb13d41"
_CODE = f"https://raw.githubusercontent.com/jingcoco/Online-Kernel-Learning/{_COMMIT}"
_ARCHIVE = "datasets.rar of github.com/JunfLi-TJU/KARegret-OKS at cb3038f"


@dataclass(frozen=True)
class KernelSet:
    """One data set: its sizes, the study's budget, the digest of its arrays, and the URL of the public copy."""

    name: str
    n: int
    d: int
    n_classes: int
    budget: int
    digest: str
    url: str | None = None  # None: the public copy is in an archive that must be unpacked by hand
    origin: str = _CODE


@dataclass(frozen=True)
class Arrays:
    """The examples, and the permutations that are stored with them, if any."""

    X: NDArray[np.float64]
    y: NDArray[np.int64]
    orders: NDArray[np.int64]

    def order(self, number: int) -> NDArray[np.int64]:
        """Return the permutation of this number: the stored one, otherwise a random one with this seed."""
        if number < len(self.orders):
            return np.asarray(self.orders[number], dtype=np.int64)
        return np.random.default_rng(number).permutation(len(self.y)).astype(np.int64)


SETS = {
    entry.name: entry
    for entry in (
        KernelSet("german", 1000, 24, 2, 100, "f71eb7c8307f8aae6bd9e49f8ba37c77edb6a7e7c5b48aebb25f384772f1153e",
                  f"{_CODE}/binary/data/german.mat"),
        KernelSet("spambase", 4601, 57, 2, 100, "35deb3d826d1304f7c0ee880a36b1a86e029dfb6d05fab9716a16747ca40d983",
                  f"{_CODE}/binary/data/spambase.mat"),
        KernelSet("a9a", 48842, 123, 2, 100, "739b3592947e7c9d0188f16363cdfddcafef6ba55f4928162219284153668367",
                  origin=f"a9a_all.train in {_ARCHIVE}"),
        KernelSet("ijcnn1", 141691, 22, 2, 100, "27e6e4a1ebc2ba89ad655e8c5a1adc17536d9d2414fb9407e00e02624528867b",
                  origin=f"ijcnn1_all.train in {_ARCHIVE}"),
        KernelSet("dna", 2000, 180, 3, 200, "5038ab02b6d0b97004de881d363c950eaf50800f5b220c6f4e9dfadc03b5ecb2",
                  f"{_CODE}/multiclass/data/dna.mat"),
        KernelSet("satimage", 4435, 36, 6, 200, "0699ea6b1218bb627364b15d5862c705c78b2c2715a45b46247f7acfc79f21ff",
                  f"{_CODE}/multiclass/data/satimage.mat"),
    )
}  # fmt: skip


def set_named(name: str) -> KernelSet:
    """Return a set by name."""
    if name not in SETS:
        raise input_error("reproduce kernel", "--sets", f"some of {', '.join(SETS)}", shown(name))
    return SETS[name]


def fetch(entry: KernelSet, folder: str | None) -> Path:
    """Return the file of a data set, from the user's folder if there is one, otherwise from the cache.

    A file that is not in the cache is downloaded into it, if there is a URL.
    """
    own = own_folder(folder)
    for directory in [cache_folder() / "kernel"] if own is None else [own, own / "kernel"]:
        for suffix in (".npz", ".mat"):
            if (directory / f"{entry.name}{suffix}").is_file():
                return directory / f"{entry.name}{suffix}"
    if own is not None or entry.url is None:
        where = f"at {entry.url}" if entry.url else f"in {entry.origin}; a .npz file needs the arrays X, y and orders"
        raise DataUnavailable(
            f"{entry.name} is not in {own or 'the cache'}. Put {entry.name}.npz or {entry.name}.mat into a folder, and "
            f"pass that folder with --from; or leave {entry.name} out of --sets. The data are {where}."
        )
    return _downloaded(entry, cache_folder() / "kernel")


def _downloaded(entry: KernelSet, directory: Path) -> Path:
    """Download a data set and verify its content at once, before hours of runs. A damaged download is deleted."""
    pooch = import_extra("pooch")
    from requests.exceptions import RequestException  # comes with pooch

    assert entry.url is not None
    url = mirrored(f"kernel/{entry.name}.mat", entry.url)
    try:
        downloaded = Path(pooch.retrieve(url, known_hash=None, fname=f"{entry.name}.mat", path=directory))
    except (RequestException, OSError) as problem:
        raise DataUnavailable(
            f"{entry.name} could not be downloaded from {url} ({type(problem).__name__}). Nothing was kept. Try again "
            "when online, or put the file into a folder and pass that folder with --from."
        ) from None
    try:
        _verified(entry, downloaded)
    except DataCorrupt:
        downloaded.unlink()
        raise DataCorrupt(
            f"{entry.name} from {url} should have content with the SHA-256 {entry.digest[:16]}…, but the download "
            "differs. Nothing was kept. Try again; if the error persists, the copy at this URL has changed."
        ) from None
    return downloaded


def load(entry: KernelSet, folder: str | None) -> Arrays:
    """Read a set and verify its content."""
    return _verified(entry, fetch(entry, folder))


def _verified(entry: KernelSet, path: Path) -> Arrays:
    """Read a data set, and reject it if its content does not have the expected SHA-256."""
    X, y, orders = _read(path)
    sha = hashlib.sha256()
    # The digest is over the arrays in fixed types, so .npz and .mat copies have the same digest.
    for values, kind in ((X, "<f4"), (y, "|i1"), (orders, "<i4")):
        sha.update(np.ascontiguousarray(values).astype(kind).tobytes())
    if sha.hexdigest() != entry.digest:
        raise DataCorrupt(
            f"{path} should have content with the SHA-256 {entry.digest[:16]}…, but has {sha.hexdigest()[:16]}…. It is "
            "damaged or another version: remove it and fetch it again."
        )
    return Arrays(np.asarray(X, dtype=np.float64), np.asarray(y, dtype=np.int64), np.asarray(orders, dtype=np.int64))


def _read(path: Path) -> tuple[Any, Any, Any]:
    """Return X, y and the orders, in which rows are counted from 0."""
    try:
        if path.suffix == ".npz":
            with np.load(io.BytesIO(path.read_bytes()), allow_pickle=False) as archive:
                return archive["X"], archive["y"], archive["orders"]
        from scipy.io import loadmat

        content = loadmat(io.BytesIO(path.read_bytes()))
        rows = np.asarray(content["data"].todense() if hasattr(content["data"], "todense") else content["data"])
        orders = content["ID_all"] if "ID_all" in content else content["ID_list"]
        # The first column is the label. MATLAB counts the rows in an order from 1.
        return rows[:, 1:].astype(np.float32), rows[:, 0], orders[:20].astype(np.int64) - 1
    except Exception as problem:  # readers of damaged files raise errors of many kinds
        raise DataCorrupt(f"{path} cannot be read as a data set ({problem}). Remove it and fetch it again.") from None
