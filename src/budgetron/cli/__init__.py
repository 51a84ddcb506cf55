"""The command line: `budgetron COMMAND`. A command is imported when it is called, so that --help is quick.

exit code 0     done
          1     done, and what was asked about is not so (a damaged file, for instance)
          2     refused: the sentence says who, what is accepted, what came, and the remedy
          3     failed: a disk, the network, a worker or a missing package; the command itself was right
          130   stopped by Ctrl-C, SIGTERM or SIGHUP; what was learned is saved where that was asked for
"""

from __future__ import annotations

import errno
import importlib
import os
import re
import sys
from typing import TYPE_CHECKING, Any, NoReturn

import click

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

REFUSED, FAILED, INTERRUPTED = 2, 3, 130
COMMANDS = {  # name → module, what --help says
    "run": ("budgetron.cli.run", "Learn from a stream in one pass, and tell how well."),
    "predict": ("budgetron.cli.predict", "Predict the rows of a stream with a saved model."),
    "compare": ("budgetron.cli.compare", "Run several learners side by side, and say which to take."),
    "tune": ("budgetron.cli.tune", "Look for a better bandwidth and budget, seldom needed."),
    "inspect": ("budgetron.cli.inspect", "Look into a saved model."),
    "serve": ("budgetron.cli.serve", "Serve models over HTTP; they keep learning and lose nothing."),
    "keys": ("budgetron.cli.keys", "Make and list API keys for the service."),
    "datasets": ("budgetron.cli.datasets", "List, fetch, verify and export the data sets."),
    "pictures": ("budgetron.cli.pictures", "Draw the paper's remarks as pictures."),
    "reproduce": ("budgetron.cli.reproduce", "Run the paper's Table 1 and show it beside the printed one."),
    "completion": ("budgetron.cli.completion", "Print what completes commands in your shell."),
}

_WRONG_PATH = {errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.EACCES, errno.EPERM, errno.ENAMETOOLONG, errno.ELOOP}
_OPTIONS = {  # a remedy in Python → the same on the command line
    'on_error="skip"': "--on-error skip",
    "classes=[...]": "--classes A,B",
    "label=...": "--label COLUMN",
    "task=...": "--task COLUMN",
    "format=...": "--format NAME",
}


class LazyGroup(click.Group):
    """Commands by name; their modules are imported on use."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        command: click.Command = importlib.import_module(COMMANDS[name][0]).command
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """The commands that begin so, none of them imported: a shell must not wait."""
        from click.shell_completion import CompletionItem

        own = [CompletionItem(name, help=text) for name, (_, text) in COMMANDS.items() if name.startswith(incomplete)]
        return own + click.Command.shell_complete(self, ctx, incomplete)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])

    def invoke(self, ctx: click.Context) -> Any:
        from budgetron.errors import BudgetronError, InputError

        try:
            return super().invoke(ctx)
        except BudgetronError as error:
            _end(_in_options(str(error)), REFUSED if isinstance(error, InputError) else FAILED)
        except OSError as error:
            if error.errno == errno.EPIPE:  # the reader closed the pipe
                raise
            # A wrong path is wrong input, as click's own checks of paths say; all else is the system's failure.
            _end(_said(ctx, error), REFUSED if error.errno in _WRONG_PATH else FAILED)
        except KeyboardInterrupt:
            click.echo("Stopped.", err=True)
            sys.exit(INTERRUPTED)


def _end(sentence: str, exit_code: int) -> NoReturn:
    """Show an error of the library as it is, without a traceback, and exit."""
    click.echo(f"Error: {sentence}", err=True)
    sys.exit(exit_code)


def _in_options(sentence: str) -> str:
    """The library names parameters, the command line options."""
    for parameter, option in _OPTIONS.items():
        sentence = sentence.replace(parameter, option)
    return re.sub(r'categorical=\["(.+?)"\]', r"--categorical '\1'", sentence)


def _said(ctx: click.Context, error: OSError) -> str:
    """What the system refused, in our words."""
    what = "the file" if error.filename is None else repr(os.fsdecode(error.filename))
    reason = error.strerror or str(error)
    return f"{ctx.invoked_subcommand}: {what} must be one that can be read or written; got: {reason}."


def _version(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
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
def main() -> None:
    """Online kernel classifiers for thousands of related tasks inside one fixed memory budget."""
