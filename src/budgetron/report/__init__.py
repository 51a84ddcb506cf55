"""A run as one HTML page that needs nothing from outside: how it went, for whom, and how to repeat it.

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

from budgetron.report.context import Context, digest_of
from budgetron.report.writing import rendered, write

__all__ = ["Context", "digest_of", "rendered", "write"]
