"""Generate the reference page of the commands from their --help texts. `hooks` calls this."""

from __future__ import annotations

from collections.abc import Iterator

import click

PAGES = ["reference/commands.md"]


def page_texts() -> dict[str, str]:
    """The path of the page and its text."""
    from budgetron.cli import main

    parts = ["# Commands\n\nThe `--help` text of every command.\n"]
    parts += [f"## {name}\n\n```text\n{text}\n```\n" for name, text in _help_texts(main, "budgetron", None)]
    return {PAGES[0]: "\n".join(parts)}


def _help_texts(command: click.Command, name: str, parent: click.Context | None) -> Iterator[tuple[str, str]]:
    short = name.rsplit(" ", 1)[-1]
    with click.Context(command, parent, info_name=short, terminal_width=80, **command.context_settings) as context:
        yield name, command.get_help(context).strip()
        if isinstance(command, click.Group):
            for child_name in command.list_commands(context):
                child = command.get_command(context, child_name)
                if child is not None and not child.hidden:
                    yield from _help_texts(child, f"{name} {child_name}", context)
