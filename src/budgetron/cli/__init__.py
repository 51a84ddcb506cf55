"""The command line: `budgetron COMMAND`. A command is imported when it is called, so that --help is quick.

exit code 0     done
          1     done, and what was asked about is not so (a damaged file, for instance)
          2     refused: the sentence says who, what is accepted, what came, and the remedy
          130   stopped by Ctrl-C
"""

from __future__ import annotations

import importlib
import sys
from typing import Any

import click

INTERRUPTED = 130
COMMANDS = {  # name → module, what --help says
    "datasets": ("budgetron.cli.datasets", "List, fetch and verify the data sets."),
    "pictures": ("budgetron.cli.pictures", "Draw the paper's remarks as pictures."),
    "reproduce": ("budgetron.cli.reproduce", "Run the paper's Table 1 and show it beside the printed one."),
}


class Refused(click.ClickException):
    """A refusal of the library, shown as it is and without a traceback."""

    exit_code = 2


class LazyGroup(click.Group):
    """Commands by name; their modules are imported on use."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        command: click.Command = importlib.import_module(COMMANDS[name][0]).command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])

    def invoke(self, ctx: click.Context) -> Any:
        from budgetron.errors import InputError

        try:
            return super().invoke(ctx)
        except InputError as refusal:
            raise Refused(str(refusal)) from None
        except KeyboardInterrupt:
            click.echo("Stopped.", err=True)
            sys.exit(INTERRUPTED)


def _version(ctx: click.Context, _: click.Parameter, wanted: bool) -> None:
    if wanted and not ctx.resilient_parsing:
        from budgetron.version import __version__

        click.echo(f"budgetron {__version__}")
        ctx.exit()


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version", is_flag=True, is_eager=True, expose_value=False, callback=_version, help="Show the version."
)
def main() -> None:
    """Online kernel classifiers for thousands of related tasks inside one fixed memory budget."""
