"""`budgetron serve`: a service that keeps learning."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from budgetron.errors import MissingExtra, import_extra, refuse, shown

DEFAULT = "default"  # the model of the short paths
_SHARDS = 8  # with --ray, as `run` has them


@click.command("serve")
@click.argument("models", nargs=-1, metavar="[[NAME=]MODEL]...")
@click.option("--data", type=click.Path(path_type=Path, file_okay=False), required=True, help="Directory of its state.")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen at.")
@click.option("--port", default=8000, show_default=True, type=click.IntRange(0, 65535), help="Port; 0: a free one.")
@click.option("--keys", type=click.Path(path_type=Path, dir_okay=False, exists=True), help="File of API keys.")
@click.option("--without-keys", is_flag=True, help="Listen beyond this machine without keys.")
@click.option("--rate", default=0.0, type=click.FloatRange(min=0), help="Examples a second for each key; 0: no limit.")
@click.option("--tls-certificate", type=click.Path(path_type=Path, exists=True), help="PEM file.")
@click.option("--tls-key", type=click.Path(path_type=Path, exists=True), help="PEM file.")
@click.option("--snapshot-every", default=50_000, show_default=True, type=click.IntRange(min=1), help="Examples.")
@click.option("--shards", type=click.IntRange(min=1), help="Shards of each new model; they divide its budget.")
@click.option("--workers", type=click.IntRange(min=1), default=2, show_default=True,
              help="Threads, or Ray actors, of the shards of a model.")
@click.option("--ray", type=click.Path(path_type=Path, file_okay=False), metavar="DIRECTORY",
              help="Have the shards on Ray, with their logs in a directory that its nodes share; 8 unless --shards.")
@click.option("--pending", default=100_000, show_default=True, type=click.IntRange(min=1),
              help="Predictions that wait for a label at most.")  # fmt: skip
@click.option("--grace", default=10.0, show_default=True, type=click.FloatRange(min=1), help="Seconds to stop in.")
@click.option("--log-requests", is_flag=True, help="Log every request, not only faults.")
def command(
    models: tuple[str, ...],
    data: Path,
    host: str,
    port: int,
    keys: Path | None,
    without_keys: bool,
    rate: float,
    tls_certificate: Path | None,
    tls_key: Path | None,
    snapshot_every: int,
    shards: int | None,
    workers: int,
    ray: Path | None,
    pending: int,
    grace: float,
    log_requests: bool,
) -> None:
    """Serve models over HTTP; they keep learning, and what was acknowledged survives anything.

    MODEL is a model file, or a learner such as Budgetron or "Forgetron budget=100 kernel=gaussian:0.5"; without a
    NAME it is the one of the short paths. Nothing named: a default Budgetron. A model that is already in the
    directory goes on as it was, whatever is said here.
    """
    try:
        from budgetron.service.run import serve
    except ModuleNotFoundError as missing:
        message = f"serve: the package {missing.name} is not installed. pip install 'budgetron[serve]' brings it."
        raise MissingExtra(message) from None
    from budgetron.service.settings import Limits, Settings

    if ray is not None:
        import_extra("serve", "ray", "ray")
        shards = shards or _SHARDS
    settings = Settings(
        data=data, host=host, port=port, keys=keys, without_keys=without_keys, tls_certificate=tls_certificate,
        tls_key=tls_key, snapshot_every=snapshot_every,
        shards=shards, workers=workers, ray=ray, pending=pending, grace=grace, log_requests=log_requests,
        limits=replace(Limits(), rate=rate),
    )  # fmt: skip
    serve(settings.checked(), _models(models, data))


def _models(texts: tuple[str, ...], data: Path) -> dict[str, Callable[[], Any] | None]:
    """What each named model begins with; those that are in the directory already go on by themselves."""
    named: dict[str, Callable[[], Any] | None] = {}
    for text in texts:
        found = re.fullmatch(r"(?:([A-Za-z0-9_-]{1,64})=)?(.+)", text)
        if found is None or (found[1] is None and Path(text).suffix == "" and "=" in text.split()[0]):
            raise refuse("serve", "MODEL", "NAME=MODEL, with a name of letters, digits, - and _", shown(text))
        name = found[1] or DEFAULT
        if name in named:
            raise refuse("serve", "MODEL", "one for each name", f"{name!r} twice", "Name the others.")
        named[name] = _beginning(found[2])
    if data.is_dir():
        for folder in sorted(data.iterdir()):
            if (folder / "host.sqlite").is_file() or (folder / "requests.sqlite").is_file():
                # one that was killed before its first example has a directory and nothing in it
                named.setdefault(folder.name, _beginning("Budgetron") if folder.name == DEFAULT else None)
    return named or {DEFAULT: _beginning("Budgetron")}


def _beginning(text: str) -> Callable[[], Any]:
    """A model file, or a learner by its name and settings."""
    if Path(text).is_file():
        from budgetron import load

        return lambda: load(text)
    from budgetron.cli.settings import LearnerText

    first, *words = shlex.split(text) or [""]
    if first.endswith(".budgetron") or "/" in first:
        raise refuse("serve", "MODEL", "a model file that is there, or the name of a learner", shown(text))
    given: dict[str, str] = {}
    others = []
    for word in words:
        key, _, value = word.partition("=")
        if key in ("budget", "kernel", "graph"):
            given[key] = value
        else:
            others.append(word)
    learner = LearnerText(learner=first, others=tuple(others), **given).checked("serve")
    return lambda: learner.made("serve")
