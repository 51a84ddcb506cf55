"""python benchmarks/flagship/equal_budget.py [--quick]

Budgetron as it comes against itself with its mind made up: each belief alone, independent, pooled, linear only, kernel
only, and coupled as the paper has it (own part as large as the shared one). Equal B, five orders.
"""

from __future__ import annotations

from typing import Any

from common import STREAMS, Row, Stream, check, compared, named, present, quick, save

from budgetron import Belief, Budgetron, graphs
from budgetron.learners.budgetron import DENSE, SPARSE

# The lowest error of the slow prototype in NOTES, on one or two orders.
SLOTS = 2**16  # cells of the hashed table, as in NOTES; word counts only
NOTED = {"exam": 19.2, "school": 19.6, "chem97": 22.8, "spam": 2.0, "sentiment": 17.4}


def learners(stream: Stream) -> dict[str, Any]:
    beliefs = SPARSE if stream.is_text else DENSE
    paper = Belief(kernel=10, kernel_own=1)

    def with_(**settings: Any) -> Any:
        kernel = settings.pop("kernel", stream.kernel)
        count = sum(belief.linear > 0 for belief in settings.get("beliefs", beliefs))
        table = SLOTS * 8 * (2 * count + 1)  # as many cells for one belief as for three
        return lambda seed: Budgetron(
            budget=stream.budget(seed), kernel=kernel, **({"table": table} | settings)
        )

    return (
        {
            "auto": with_(),
            "independent": with_(graph=graphs.disconnected()),
            "pooled": with_(graph=graphs.complete(coupling=float("inf"))),
            "coupled": with_(beliefs=[paper]),
            "linear only": with_(kernel=None),
            "kernel only": with_(beliefs=[belief for belief in beliefs if not belief.linear]),
        }
        | ({"auto, table as it comes": with_(table="2 MiB")} if stream.is_text else {})
        | {f"fixed: {named(belief)}": with_(beliefs=[belief]) for belief in beliefs}
    )


def main() -> None:
    is_quick = quick()
    rows: list[Row] = []
    checks: list[Row] = []
    for stream in present(STREAMS):
        new = compared(stream.title, learners(stream), stream.ordered, range(1 if is_quick else 5))
        auto = new[0]
        best = min((row for row in new if "auto" not in row["learner"]), key=lambda row: row["error"])
        check(checks, f"{stream.title}: at most 0.5 points behind the best fixed belief",
              auto["error"] <= best["error"] + 0.5,
              f"{auto['error']:.2f} against {best['error']:.2f} ({best['learner']})")  # fmt: skip
        check(checks, f"{stream.title}: the prototype's lowest error in NOTES, within one standard error",
              auto["error"] <= NOTED[stream.name] + auto["error_se"],
              f"{auto['error']:.2f} ± {auto['error_se']:.2f} against {NOTED[stream.name]}")  # fmt: skip
        if stream.name in ("exam", "school"):
            check(
                checks,
                f"{stream.title}: expected calibration error below 0.05",
                auto["ece"] < 0.05,
                f"{auto['ece']:.3f}",
            )
        rows += new
    save("equal_budget", rows, checks, is_quick)


if __name__ == "__main__":
    main()
