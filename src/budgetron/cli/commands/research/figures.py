"""`budgetron figures`: draw figures that illustrate the remarks of the paper."""

from __future__ import annotations

from pathlib import Path

import click


@click.command()
@click.option(
    "--out", type=click.Path(path_type=Path), default=Path("figures"), show_default=True, help="Output folder."
)
def command(out: Path) -> None:
    """Draw the paper's remarks as SVG figures: how graphs affect tasks, budgets and bounds."""
    from budgetron.theory.plotting import all_figures

    out.mkdir(parents=True, exist_ok=True)
    for name, svg in all_figures().items():
        (out / name).write_text(svg, encoding="utf-8")
        click.echo(out / name)
