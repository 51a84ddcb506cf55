"""Which process owns a copy and may write to it: one object per claim, and the highest epoch wins.

A copy is the replica of a model's database in a store (`replicator`). A claim is the object
`epochs/EPOCH-DIRECTORY-PROCESS` in that store. Its epoch is a number that is higher than the epochs of all earlier
owners. A process writes its claim with the next epoch and then lists all claims. If another claim has the same or a
higher epoch, the process withdraws its own claim and fails. Of two processes that claim at the same time, at most one
keeps its claim. The store therefore needs no locks and no conditional writes.

The owner lists the claims before each copy, and stops when there is a higher epoch. A write of the former owner that is
still in progress goes to the folder of the old epoch. There it does no harm, because the new owner continues from the
last object that it has read of the old epoch, and ignores later ones.

DIRECTORY is a random number that the data directory stores in the file `copy-owner`. After a restart, a process with
the same data directory may claim the copy again. A process with another directory must ask for a takeover.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from pathlib import Path

from budgetron.durable.errors import StaleOwner, storage_errors
from budgetron.durable.replication.store import Store
from budgetron.durable.storage.sqlite_file import create_private
from budgetron.persist.disk import replace_file

OWNER_FILE = "copy-owner"
_FOLDER = "epochs"
_MAX_OLD_CLAIMS = 5  # claims of earlier owners that stay, for diagnosis


@dataclass(frozen=True)
class Claim:
    """A claim of a copy."""

    epoch: int
    directory: str
    process: str

    @property
    def name(self) -> str:
        return f"{self.epoch:08d}-{self.directory}-{self.process}"

    def check(self, store: Store) -> None:
        """Raise `StaleOwner` if another process has claimed the copy after this claim, or with the same epoch."""
        later = [other for other in claims(store) if other.epoch >= self.epoch and other != self]
        if later:
            raise StaleOwner(
                f"copy: another process took over {store.url} with epoch {later[-1].epoch}; this process has epoch "
                f"{self.epoch}. Stop this process. To follow the new owner, start it with --standby-of."
            )


def claims(store: Store) -> list[Claim]:
    """All claims in the store, in the order of their epochs."""
    parts = [name.split("-") for name in store.names(_FOLDER)]
    return [Claim(int(part[0]), part[1], part[2]) for part in parts if len(part) == 3 and part[0].isdecimal()]


def claim(store: Store, directory: Path, take_over: bool = False) -> Claim:
    """Claim a copy for a data directory.

    Without `take_over`, the copy must be new, or this directory must have owned it last. Otherwise `StaleOwner` is
    raised.
    """
    token, earlier = directory_token(directory), claims(store)
    if earlier and earlier[-1].directory != token and not take_over:
        raise StaleOwner(
            f"copy: the last owner of {store.url} (epoch {earlier[-1].epoch}) used another data directory than "
            f"{str(directory)!r}. If that service has failed, start from the copy: serve --standby-of, then POST "
            "/v1/takeover. If this directory is the right one, add --take-over."
        )
    claimed = Claim(earlier[-1].epoch + 1 if earlier else 1, token, secrets.token_hex(8))
    store.put(f"{_FOLDER}/{claimed.name}", b"")
    try:
        claimed.check(store)
    except StaleOwner:
        store.delete(f"{_FOLDER}/{claimed.name}")
        raise
    for old in earlier[:-_MAX_OLD_CLAIMS]:
        store.delete(f"{_FOLDER}/{old.name}")
    return claimed


def directory_token(directory: Path) -> str:
    """The random number of a data directory, written on first use."""
    path = directory / OWNER_FILE
    with storage_errors(path):
        if path.is_file() and (text := path.read_text().strip()):
            return text
        token = secrets.token_hex(8)
        create_private(path)  # `replace_file` keeps the permissions of the file that it replaces
        replace_file(path, token.encode())
    return token
