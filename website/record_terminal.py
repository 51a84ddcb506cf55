"""Run a short session of the command line on real data, and draw what a terminal would show.

    python website/record_terminal.py [--to docs/figures/terminal.svg]

Each `budgetron` command runs as `python -m budgetron`, in a temporary folder.
"""

from __future__ import annotations

import argparse
import os
import re
import shlex
import subprocess
import sys
import tempfile
from io import StringIO
from pathlib import Path

from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

FIGURE = Path(__file__).parents[1] / "docs" / "figures" / "terminal.svg"
COLUMNS = 82
SESSION = {  # command → how many lines are shown
    "budgetron datasets export exam exam.csv --shuffle 0": 1,
    "budgetron run exam.csv --budget 64KiB --save exam.budgetron": 17,
    "budgetron predict exam.budgetron exam.csv": 4,
}
THEME = TerminalTheme(
    (30, 34, 42), (220, 223, 228),
    [(40, 44, 52), (224, 108, 117), (152, 195, 121), (229, 192, 123), (97, 175, 239), (198, 120, 221), (86, 182, 194),
     (220, 223, 228)],
)  # fmt: skip


def output_of(command: str, folder: str) -> str:
    """Run a command; return what it prints in a terminal with colours."""
    words = shlex.split(command)
    environment = os.environ | {"FORCE_COLOR": "1", "COLUMNS": str(COLUMNS), "TTY_INTERACTIVE": "0"}
    done = subprocess.run(
        [sys.executable, "-m", *words], cwd=folder, env=environment, capture_output=True, text=True, check=True
    )
    return done.stdout


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--to", type=Path, default=FIGURE)
    arguments = parser.parse_args()
    console = Console(record=True, width=COLUMNS, file=StringIO(), force_terminal=True, color_system="truecolor")
    with tempfile.TemporaryDirectory() as folder:
        for command, n_shown in SESSION.items():
            lines = output_of(command, folder).rstrip().splitlines()
            console.print(Text.assemble(("$ ", "bold green"), (command, "bold")))
            console.print(Text.from_ansi("\n".join(lines[:n_shown])))
            if len(lines) > n_shown:
                console.print(Text("…", style="dim"))
            console.print()
    drawn = console.export_svg(title="budgetron", theme=THEME, unique_id="terminal")
    # rich refers to fonts on another server. Use the fonts of the system instead.
    drawn = re.sub(r"@font-face \{.*?\}\s*", "", drawn, flags=re.S).replace("Fira Code", "ui-monospace")
    arguments.to.write_text(drawn, encoding="utf-8")
    print(f"Wrote {arguments.to}")


if __name__ == "__main__":
    main()
