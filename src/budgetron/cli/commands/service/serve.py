"""`budgetron serve`: serve models over HTTP while they keep learning.

This module turns the options into service settings, and the arguments into models; `budgetron.service` does the rest.
Arguments never change a model that is already in the data directory.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from budgetron.errors import InputError, MissingExtra, import_extra, input_error, shown

DEFAULT = "default"  # the model whose paths have no name, such as /v1/predict
_SHARDS = 8  # default with --ray, as in `run`


@click.command("serve")
@click.argument("models", nargs=-1, metavar="[[NAME=]MODEL]...")
@click.option("--data", type=click.Path(path_type=Path, file_okay=False), required=True, help="Directory of models.")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", default=8000, show_default=True, type=click.IntRange(0, 65535), help="Port; 0: a free one.")
@click.option("--keys", type=click.Path(path_type=Path, dir_okay=False, exists=True), help="File of API keys.")
@click.option("--without-keys", is_flag=True, help="Allow other machines to connect without an API key.")
@click.option("--rate", default=0.0, type=click.FloatRange(min=0), help="Examples per second and key; 0: no limit.")
@click.option(
    "--address-rate",
    default=0.0,
    type=click.FloatRange(min=0),
    help="Examples per second and client address; 0: no limit.",
)
@click.option(
    "--address-connections",
    default=0,
    type=click.IntRange(min=0),
    help="Open connections per client address; 0: no limit per address.",
)
@click.option(
    "--trusted-proxy",
    "trusted_proxies",
    multiple=True,
    metavar="ADDRESS",
    help="Address or network of a proxy whose X-Forwarded-For names the client; may be repeated.",
)
@click.option("--tls-certificate", type=click.Path(path_type=Path, exists=True), help="PEM file.")
@click.option("--tls-key", type=click.Path(path_type=Path, exists=True), help="PEM file.")
@click.option(
    "--snapshot-every",
    default=50_000,
    show_default=True,
    type=click.IntRange(min=1),
    help="Examples between two snapshots.",
)
@click.option("--shards", type=click.IntRange(min=1), help="Shards per new model; they divide its budget.")
@click.option(
    "--workers",
    type=click.IntRange(min=1),
    default=2,
    show_default=True,
    help="Threads or Ray actors per model in shards.",
)
@click.option(
    "--max-workers",
    type=click.IntRange(min=1),
    help="Add workers up to this number while more than 5,000 examples per worker wait.",
)
@click.option(
    "--ray",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIRECTORY",
    help="Run the shards on Ray, with logs in a directory that all nodes share; 8 shards without --shards.",
)
@click.option("--pending", default=100_000, show_default=True, type=click.IntRange(min=1),
              help="Largest number of remembered predictions per model.")  # fmt: skip
@click.option("--grace", default=10.0, show_default=True, type=click.FloatRange(min=1), help="Seconds to stop cleanly.")
@click.option(
    "--consume",
    multiple=True,
    metavar="[NAME=]URL",
    help="Learn from a stream of a broker, nats://HOST:PORT/STREAM, each message once; may be repeated.",
)
@click.option(
    "--traces", metavar="URL", help="Send OpenTelemetry traces to a collector, such as http://HOST:4318/v1/traces."
)
@click.option(
    "--slow",
    default=1.0,
    show_default=True,
    type=click.FloatRange(min=0),
    help="Log requests that take longer than this, in seconds; 0: none.",
)
@click.option("--replicate-to", metavar="URL", help="Copy the models continuously to a directory or fsspec URL.")
@click.option("--standby-of", metavar="URL", help="Follow the copy at this URL, and take over when asked to.")
@click.option(
    "--replicate-every",
    default=1.0,
    show_default=True,
    type=click.FloatRange(min=0),
    help="Seconds between two copies; 0: before each answer.",
)
@click.option(
    "--keep-copies",
    default=7.0,
    show_default=True,
    type=click.FloatRange(min=0),
    help="How many days back a copy can be restored.",
)
@click.option("--take-over", is_flag=True, help="Claim the copy even if another directory wrote it last.")
@click.option("--take-over-after", type=click.FloatRange(min=10), metavar="SECONDS",
              help="A standby takes over if the owner has written nothing for this long.")  # fmt: skip
@click.option("--log-requests", is_flag=True, help="Log every request, not only errors.")
def command(
    models: tuple[str, ...],
    data: Path,
    host: str,
    port: int,
    keys: Path | None,
    without_keys: bool,
    rate: float,
    address_rate: float,
    address_connections: int,
    trusted_proxies: tuple[str, ...],
    tls_certificate: Path | None,
    tls_key: Path | None,
    snapshot_every: int,
    shards: int | None,
    workers: int,
    max_workers: int | None,
    ray: Path | None,
    pending: int,
    grace: float,
    consume: tuple[str, ...],
    traces: str | None,
    slow: float,
    replicate_to: str | None,
    standby_of: str | None,
    replicate_every: float,
    keep_copies: float,
    take_over: bool,
    take_over_after: float | None,
    log_requests: bool,
) -> None:
    """Serve models over HTTP while they keep learning. An acknowledged label is never lost.

    MODEL is a model file, or a learner such as Budgetron or "Forgetron budget=100 kernel=gaussian:0.5". The paths of a
    model begin with /v1/models/NAME/, or with /v1/ if it has no NAME. A model that is in the data directory already is
    served too, and keeps its state and settings. Without any model, a default Budgetron is served.
    """
    try:
        from budgetron.service.run import serve
    except ModuleNotFoundError as missing:
        message = f"serve: the package {missing.name} is not installed. Install it with: pip install 'budgetron[serve]'"
        raise MissingExtra(message) from None
    from budgetron.service.settings import Limits, ServiceSettings

    if ray is not None:
        import_extra("serve", "ray", "ray")
        shards = shards or _SHARDS
    # Models and streams are checked before the service opens its port.
    model_functions = _models(models, data)
    streams = _streams(consume, model_functions)
    settings = ServiceSettings(
        data=data, host=host, port=port, keys=keys, without_keys=without_keys, tls_certificate=tls_certificate,
        tls_key=tls_key, snapshot_every=snapshot_every,
        shards=shards, workers=workers, max_workers=max_workers, ray=ray, pending=pending, grace=grace,
        log_requests=log_requests,
        trusted_proxies=trusted_proxies, traces=traces, consume=streams,
        limits=replace(
            Limits(), rate=rate, address_rate=address_rate, address_connections=address_connections, slow_seconds=slow
        ),
    )  # fmt: skip
    if replicate_to is None and standby_of is None:
        serve(settings.checked(), model_functions)
        return
    from budgetron.service.replication import CopySettings, copied_models

    if replicate_to is not None and standby_of is not None:
        raise input_error("serve", "--replicate-to and --standby-of", "given one at a time", "both",
                          "A standby writes to the URL that it follows, once it has taken over.")  # fmt: skip
    if standby_of is not None and models:
        accepted = "left out with --standby-of, which serves the copied models"
        raise input_error("serve", "MODEL", accepted, shown(models[0]))
    url = standby_of or replicate_to or ""
    copy = CopySettings(url, standby_of is not None, replicate_every, keep_copies, take_over, take_over_after)
    if standby_of is not None:
        model_functions = dict.fromkeys(copied_models(standby_of))
    serve(replace(settings, copy=copy).checked(), model_functions)


def _streams(texts: tuple[str, ...], models: dict[str, Any]) -> tuple[tuple[str, str], ...]:
    """Parse the values of --consume: the name of the model, and the address of its stream."""
    addresses: dict[str, str] = {}
    for text in texts:
        match = re.fullmatch(r"(?:([A-Za-z0-9_-]{1,64})=)?(\w+://.+)", text)
        if match is None:
            raise input_error("serve", "--consume", "[NAME=]nats://HOST:PORT/STREAM", shown(text))
        name = match[1] or DEFAULT
        if name not in models or name in addresses:
            got = f"two for {name!r}" if name in addresses else repr(name)
            raise input_error("serve", "--consume", f"one stream per model, for {', '.join(models)}", got)
        import_extra("serve --consume", "nats", "nats")
        from budgetron.service.consuming.nats_stream import StreamAddress

        StreamAddress(match[2])  # raises an error if it is wrong
        addresses[name] = match[2]
    return tuple(addresses.items())


def _models(texts: tuple[str, ...], data: Path) -> dict[str, Callable[[], Any] | None]:
    """Map the name of each model to a function that creates it, in case the data directory does not contain it yet.

    The function is None for a model that is only in the data directory, unless it is the default model.
    """
    functions: dict[str, Callable[[], Any] | None] = {}
    for text in texts:
        match = re.fullmatch(r"(?:([A-Za-z0-9_-]{1,64})=)?(.+)", text)
        # "b@d=Budgetron" has an invalid name: report that, instead of an unknown learner "b@d=Budgetron".
        if match is None or (match[1] is None and Path(text).suffix == "" and "=" in text.split()[0]):
            raise input_error("serve", "MODEL", "NAME=MODEL, with a name of letters, digits, - and _", shown(text))
        name = match[1] or DEFAULT
        if name in functions:
            raise input_error(
                "serve", "MODEL", "one model per name", f"two named {name!r}", "Give each a name: NAME=MODEL."
            )
        functions[name] = _initial_model(match[2])
    if data.is_dir():
        for folder in sorted(data.iterdir()):
            # A model whose database was deleted must not be skipped silently, so any of its files counts.
            if any((folder / name).is_file() for name in ("host.sqlite", "requests.sqlite", "acknowledged")):
                # The service may have been killed before the default model learned its first example. Then its
                # directory has no model, and the model has to be created again.
                functions.setdefault(folder.name, _initial_model("Budgetron") if folder.name == DEFAULT else None)
    return functions or {DEFAULT: _initial_model("Budgetron")}


def _initial_model(text: str) -> Callable[[], Any]:
    """Return a function that loads a model file, or that creates a learner from its name and settings."""
    # The function is called only if the data directory does not contain the model yet.
    if Path(text).is_file():
        from budgetron import load

        return lambda: load(text)
    from budgetron.cli.learner_spec import LearnerSpec

    first, *words = shlex.split(text) or [""]
    if first.endswith(".budgetron") or "/" in first:
        raise input_error("serve", "MODEL", "an existing model file, or the name of a learner", repr(text))
    options: dict[str, str] = {}
    others = []
    for word in words:
        key, _, value = word.partition("=")
        if key in ("budget", "kernel", "graph"):
            options[key] = value
        else:
            others.append(word)
    try:
        learner = LearnerSpec(learner=first, others=tuple(others), **options).checked("serve")
    except InputError as error:  # the error names options such as --budget, but here the user wrote budget=N
        names = {"learner": "the learner in MODEL", "set": "a setting in MODEL"}
        message = re.sub(r"^serve: --(\w+)", lambda m: f"serve: {names.get(m[1], f'{m[1]}= in MODEL')}", str(error))
        raise InputError(message) from None
    return lambda: learner.build("serve")
