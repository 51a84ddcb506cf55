"""Write the report of a run as one self-contained HTML page: errors over time and per task, and how to reproduce them.

`budgetron run --report` and your own scripts call `write`. The package `sections` has the sections of the page; `page`
has the parts that the service's live page uses too. The page must never load anything from a network.

>>> import tempfile, pathlib
>>> from budgetron import Budgetron, evaluate, report
>>> from budgetron.data import synthetic
>>> stream, _ = synthetic.stream(500, d=4, n_tasks=3, seed=0)
>>> model = Budgetron(budget=20)
>>> result = evaluate.progressive(model, stream, window=100)
>>> with tempfile.TemporaryDirectory() as folder:
...     path = pathlib.Path(folder, "report.html")
...     report.write(path, validation=result, model=model, context=report.Context(source="made up"))
...     path.read_text(encoding="utf-8").startswith("<!doctype html>")
True
"""

from budgetron.report.assemble import rendered, write
from budgetron.report.context import Context, digest_of

__all__ = ["Context", "digest_of", "rendered", "write"]
