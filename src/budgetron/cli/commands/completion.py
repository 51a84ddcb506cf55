"""`budgetron completion`: print a script that lets a shell complete commands and options."""

from __future__ import annotations

import click

SHELLS = {"bash": "~/.bashrc", "zsh": "~/.zshrc", "fish": "~/.config/fish/completions/budgetron.fish"}


@click.command()
@click.argument("shell", type=click.Choice(list(SHELLS)))
def command(shell: str) -> None:
    """Print a completion script for commands and options.

    \b
    bash   echo 'eval "$(budgetron completion bash)"' >> ~/.bashrc
    zsh    echo 'eval "$(budgetron completion zsh)"' >> ~/.zshrc
    fish   budgetron completion fish > ~/.config/fish/completions/budgetron.fish
    """
    from click.shell_completion import get_completion_class

    from budgetron.cli import main

    completion_class = get_completion_class(shell)
    assert completion_class is not None
    script = completion_class(main, {}, "budgetron", "_BUDGETRON_COMPLETE")
    click.echo(script.source_template % script.source_vars())
