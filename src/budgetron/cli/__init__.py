"""The command line: `budgetron COMMAND`.

This module has the group of commands, the exit codes, and the conversion of exceptions to messages. It must not import
a command's module before that command is called, so that `budgetron --help` and shell completion stay quick.

exit code 0     success
          1     the command ran, but its check failed (a damaged file, for instance) or some of its runs failed
                (`reproduce`); or the reader closed the pipe
          2     wrong input; the message says what is accepted and what to change
          3     operational failure: a disk, the network, a worker or a missing package
          130   stopped by Ctrl-C; run, predict, calibrate, compare and tune also by SIGTERM or SIGHUP. `run --save` has
                saved the model so far, unless a second signal stopped the run at once
"""

from __future__ import annotations

import errno
import importlib
import os
import re
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NoReturn

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

WRONG_INPUT, FAILED, INTERRUPTED = 2, 3, 130
COMMANDS = {  # name → module of `cli.commands`, and the line that --help prints
    "run": ("learning.run", "Learn from a stream in one pass and report the error."),
    "predict": ("learning.predict", "Predict the rows of a stream with a saved model."),
    "calibrate": ("learning.calibrate", "Choose how a saved model decides, on new examples."),
    "compare": ("learning.compare", "Compare learners, budgets and graphs, and recommend one."),
    "tune": ("learning.tune", "Search for a better kernel bandwidth and budget."),
    "history": ("learning.history", "List recorded runs, and compare the last two."),
    "inspect": ("learning.inspect", "Show a saved model, and explain a prediction."),
    "serve": ("service.serve", "Serve models over HTTP while they keep learning."),
    "keys": ("service.keys", "Create and list API keys for the service."),
    "verify": ("service.verify", "Check the data of a service, or a backup."),
    "repair": ("service.repair", "Continue from the last good state of damaged data."),
    "restore": ("service.restore", "Replace a model on disk by a backup."),
    "datasets": ("research.datasets", "List, download, verify and export data sets."),
    "figures": ("research.figures", "Draw figures that illustrate the paper's remarks."),
    "reproduce": ("research.reproduce", "Rerun the paper's Table 1 and compare the values."),
    "completion": ("completion", "Print a completion script for your shell."),
}

# These errors mean that the user named a wrong path, which is wrong input (exit code 2). Any other OSError, a full disk
# for instance, is an operational failure (exit code 3).
_WRONG_PATH = {errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.EACCES, errno.EPERM, errno.ENAMETOOLONG, errno.ELOOP}
_OPTIONS = {  # a Python argument in an error message → the option to show instead
    'on_error="skip"': "--on-error skip",
    "classes=[...]": "--classes A,B",
    "label=...": "--label COLUMN",
    "task=...": "--task COLUMN",
    "format=...": "--format NAME",
    "or None for no limit": "or none for no limit",
}
# Arguments of `io.read` with their values, such as task="Kunde Nr" or drop=["x.2"]. The options have the same names.
_ARGUMENT = re.compile(
    r"\b(label|task|weight|offset|decimal|encoding|format|drop|text|categorical|na_values|classes)="
    r'("(?:[^"\\]|\\.)*"|\[(?:"(?:[^"\\]|\\.)*"(?:, )?)+\])'
)
_TEXT = re.compile(r'"((?:[^"\\]|\\.)*)"')


class LazyGroup(click.Group):
    """A group that imports a command's module only when that command is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        command: click.Command = importlib.import_module(f"budgetron.cli.commands.{COMMANDS[name][0]}").command
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete command names without importing the commands, so that the shell does not wait."""
        from click.shell_completion import CompletionItem

        # click's own implementation would import every command to read its help text.
        own = [CompletionItem(name, help=text) for name, (_, text) in COMMANDS.items() if name.startswith(incomplete)]
        return own + click.Command.shell_complete(self, ctx, incomplete)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])

    def invoke(self, ctx: click.Context) -> Any:
        from budgetron.errors import BudgetronError, InputError

        try:
            with _warnings_on_standard_error(bool(ctx.params.get("verbose"))):
                return super().invoke(ctx)
        except BudgetronError as error:
            _exit_with_error(with_options(str(error)), WRONG_INPUT if isinstance(error, InputError) else FAILED)
        except OSError as error:
            # click ends the process quietly in this case, as shells expect.
            if error.errno == errno.EPIPE:  # the reader closed the pipe
                raise
            _exit_with_error(_os_error_message(ctx, error), WRONG_INPUT if error.errno in _WRONG_PATH else FAILED)
        except KeyboardInterrupt:
            click.echo("Stopped.", err=True)
            sys.exit(INTERRUPTED)


@contextmanager
def _warnings_on_standard_error(verbose: bool) -> Iterator[None]:
    """Print the library's log messages on standard error, with options in place of Python arguments.

    Warnings are always printed, information only with --verbose.
    """
    import logging

    class PrintingHandler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if logger.handlers != [self]:  # `serve` has set up its own log
                return
            kind = "Warning" if record.levelno >= logging.WARNING else "Note"
            click.echo(f"{kind}: {with_options(record.getMessage())}", err=True)

    # Everything that is changed here is restored below: tests and programs may call `main` several times.
    logger, handler = logging.getLogger("budgetron"), PrintingHandler()
    propagate_before, level_before = logger.propagate, logger.level
    logger.addHandler(handler)
    handler.setLevel(logging.INFO if verbose else logging.WARNING)
    if verbose:
        logger.setLevel(logging.INFO)
    logger.propagate = False  # otherwise a handler of the calling program would print the messages again
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.propagate = propagate_before
        logger.setLevel(level_before)


def _exit_with_error(sentence: str, exit_code: int) -> NoReturn:
    """Print the message on standard error, without a traceback, and exit."""
    click.echo(f"Error: {sentence}", err=True)
    sys.exit(exit_code)


def with_options(sentence: str) -> str:
    """Replace Python remedies, such as on_error="skip", by the matching options."""
    for parameter, option in _OPTIONS.items():
        sentence = sentence.replace(parameter, option)
    return _ARGUMENT.sub(_as_option, sentence)


def _as_option(argument: re.Match[str]) -> str:
    # Undo the quoting of Python, then quote for the shell.
    values = [quoted.replace('\\"', '"').replace("\\\\", "\\") for quoted in _TEXT.findall(argument[2])]
    return f"--{argument[1].replace('_', '-')} {shlex.quote(','.join(values))}"


def _os_error_message(ctx: click.Context, error: OSError) -> str:
    """Return the command, the system's reason and the path: `run: No such file or directory: mail.csv`."""
    reason = error.strerror or str(error)
    where = "" if error.filename is None else f": {os.fsdecode(error.filename)}"
    return f"{ctx.invoked_subcommand}: {reason}{where}"


def _version(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
    """Print the version and the engine, and exit."""
    if wanted and not ctx.resilient_parsing:
        from budgetron.engine.native import level
        from budgetron.version import __version__

        engine = f"compiled core, level {level}" if level else "NumPy engine, no compiled core"
        click.echo(f"budgetron {__version__} ({engine})")
        ctx.exit()


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_version,
    help="Show the version and the engine.",
)
@click.option("--verbose", "-v", is_flag=True, help="Also print what the library does and decides.")
def main(verbose: bool) -> None:
    """Online classifiers for many related tasks, in a fixed amount of memory."""
