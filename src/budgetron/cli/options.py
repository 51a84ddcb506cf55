"""Options that several commands share, and the dataclasses that hold their values."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import click
from click.shell_completion import CompletionItem

from budgetron.cli.learner_spec import GRAPHS, LearnerSpec, learner_named
from budgetron.errors import input_error, shown
from budgetron.learners.registry import learner_class, learner_names

FORMATS = ("auto", "csv", "tsv", "parquet", "arrow", "ndjson", "svmlight", "vw")
Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]

stream_argument = click.argument("stream", type=click.Path(allow_dash=True))
model_argument = click.argument("model", type=click.Path())
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
overwrite_option = click.option("--overwrite", is_flag=True, help="Replace existing files.")
limit_option = click.option("--limit", type=click.IntRange(min=1), help="Stop after this many rows.")
on_error_option = click.option(
    "--on-error",
    type=click.Choice(["stop", "skip"]),
    default="stop",
    show_default=True,
    help="On a bad line: stop, or skip and count it.",
)
format_option = click.option(
    "--format",
    "file_format",
    type=click.Choice(FORMATS),
    default="auto",
    show_default=True,
    help="Format of the stream; auto detects it from name and content.",
)
encoding_option = click.option(
    "--encoding", default="utf-8", show_default=True, metavar="NAME", help="Encoding of text, such as cp1252."
)


def stream_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options for reading a labelled stream."""
    options: list[Decorator] = [
        format_option,
        click.option("--label", metavar="COLUMN", help="The column to predict."),
        click.option("--task", metavar="COLUMN", help="The column with the task: user, machine, shop."),
        click.option("--drop", multiple=True, metavar="COLUMNS", help="Columns to ignore: A,B."),
        click.option("--text", multiple=True, metavar="COLUMNS", help="Columns of raw text: A,B."),
        click.option("--categorical", multiple=True, metavar="COLUMNS", help="Categorical columns: A,B."),
        click.option("--weight", metavar="COLUMN", help="The column with the weight of an example, a number >= 0."),
        click.option("--offset", metavar="COLUMN", help="The column with another model's score, in log odds."),
        click.option(
            "--decimal", type=click.Choice([".", ","]), help="The decimal separator of numbers.  [default: detected]"
        ),
        click.option("--na-values", multiple=True, metavar="VALUES", help="More codes for missing values: -999,k.A."),
        click.option("--classes", metavar="LABELS", help="All labels, as in ham,spam, if the first rows lack some."),
        encoding_option,
        on_error_option,
        limit_option,
    ]
    return _with_options(command, options)


READING_OPTIONS = ("file_format", "encoding", "on_error", "limit")


def reading_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options for reading a file with the columns of a saved model."""
    return _with_options(command, [format_option, encoding_option, on_error_option, limit_option])


def reading_arguments(option_values: dict[str, Any]) -> dict[str, Any]:
    """Return the values of `reading_options` as arguments of `io.read`."""
    return {name.removeprefix("file_"): option_values[name] for name in READING_OPTIONS}


class LearnerName(click.ParamType):  # type: ignore[type-arg]
    """A learner's class name, its name in the paper, or the name of a preset; upper and lower case are the same."""

    name = "learner"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        return learner_named((ctx.info_name if ctx else None) or "the command line", value)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        classes = [learner_class(name) for name in learner_names()]
        names = [*learner_names(), *filter(None, (learner.paper_name for learner in classes))]
        names += [preset for learner in classes for preset in learner.presets]
        return [CompletionItem(name) for name in names if name.lower().startswith(incomplete.lower())]


def learner_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that choose and configure a learner."""
    options: list[Decorator] = [
        click.option(
            "--learner",
            type=LearnerName(),
            default="Budgetron",
            show_default=True,
            metavar="NAME",
            help=f"{', '.join(learner_names())}; or a name from the paper, or a preset.",
        ),
        click.option(
            "--budget",
            metavar="N|SIZE",
            help="Stored examples, or a size such as 64KiB: the total, also in shards.  "
            "[default: 4 MiB for Budgetron, 200 for SecondOrderPerceptron, else 500]",
        ),
        click.option(
            "--kernel",
            default="gaussian",
            show_default=True,
            help="gaussian[:GAMMA], polynomial[:DEGREE], linear[:BIAS]; none for a linear Budgetron.",
        ),
        click.option("--graph", default="complete", show_default=True, help=f"{GRAPHS}."),
        click.option("--set", "others", multiple=True, metavar="NAME=VALUE", help="Any other parameter."),
    ]
    return _with_options(command, options)


def _with_options(command: Callable[..., Any], options: list[Decorator]) -> Callable[..., Any]:
    # Decorators are applied from the last to the first, so that --help lists the options in this order.
    for option in reversed(options):
        command = option(command)
    return command


_LISTS = ("drop", "text", "categorical", "na_values")
COLUMN_OPTIONS = ("label", "task", "weight", "offset", "decimal", *_LISTS, "classes")  # what a saved model knows


@dataclass(frozen=True)
class StreamOptions:
    """The values of the options for reading a stream."""

    source: str
    file_format: str = "auto"
    label: str | None = None
    task: str | None = None
    drop: tuple[str, ...] = ()
    text: tuple[str, ...] = ()
    categorical: tuple[str, ...] = ()
    classes: tuple[str, ...] = ()
    weight: str | None = None
    offset: str | None = None
    decimal: str | None = None
    na_values: tuple[str, ...] = ()
    encoding: str = "utf-8"
    on_error: str = "stop"
    limit: int | None = None

    @classmethod
    def from_options(cls, source: str, option_values: dict[str, Any]) -> StreamOptions:
        """Take the options of a stream out of `option_values`, and return them. Other options stay there."""
        lists: dict[str, Any] = {name: _split(option_values.pop(name)) for name in _LISTS}
        labels = option_values.pop("classes")
        classes = () if labels is None else _split([labels])
        if labels is not None and len(set(classes)) < 2:
            raise input_error("the command line", "--classes", "two labels or more, separated by commas", shown(labels))
        names = ("file_format", "label", "task", "weight", "offset", "decimal", "encoding", "on_error", "limit")
        single: dict[str, Any] = {name: option_values.pop(name) for name in names}
        return cls(source, **single, **lists, classes=classes)

    def words(self, columns: bool = True) -> list[str]:
        """Return the options for reading the same stream again, except --on-error and --limit.

        With `columns=False`, options about columns are left out, because a saved model knows its columns.
        """
        defaults = StreamOptions(self.source)
        names = ["file_format", "encoding", *(COLUMN_OPTIONS if columns else ())]
        words = []
        for name in names:
            value = getattr(self, name)
            if value != getattr(defaults, name):
                text = ",".join(value) if isinstance(value, tuple) else value
                words.append(f"--{name.removeprefix('file_').replace('_', '-')} {shlex.quote(text)}")
        return words


def learner_spec_from_options(who: str, option_values: dict[str, Any]) -> LearnerSpec:
    """Take the options of a learner out of `option_values`, and return them. Other options stay there."""
    names = ("learner", "budget", "kernel", "graph", "others")
    return LearnerSpec(**{name: option_values.pop(name) for name in names}).checked(who)


def _split(values: Any) -> tuple[str, ...]:
    """Split the values of a repeatable option, each of which may be a list separated by commas."""
    return tuple(part.strip() for value in values for part in value.split(",") if part.strip())
