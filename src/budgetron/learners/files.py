"""Models to files and back: `save` and `load`, and the closed list of what a file may hold.

>>> import budgetron, tempfile, pathlib
>>> model = budgetron.Budgetron(budget=50).partial_fit([[0.0, 1.0], [1.0, 0.0]], ["ham", "spam"], tasks=["ann", "bob"])
>>> with tempfile.TemporaryDirectory() as folder:
...     model.save(pathlib.Path(folder) / "spam.budgetron")
...     again = budgetron.load(pathlib.Path(folder) / "spam.budgetron")
>>> again.predict_one([0.9, 0.1], task="bob")
'spam'
"""

from __future__ import annotations

import os
from typing import Any

from budgetron.engine.memory import budget_of
from budgetron.errors import refuse, shown
from budgetron.learners.budget_projectron import BudgetProjectron
from budgetron.learners.budgetron import Budgetron
from budgetron.learners.forgetron import Forgetron
from budgetron.learners.learner import Learner
from budgetron.learners.perceptron import Perceptron
from budgetron.learners.random_budget_perceptron import RandomBudgetPerceptron
from budgetron.learners.saved import model_of
from budgetron.learners.shared_projectron import SharedProjectron
from budgetron.persist import read_bytes, unpacked
from budgetron.persist.schema import read

LEARNERS: dict[str, type[Learner]] = {
    learner.__name__: learner
    for learner in (Perceptron, RandomBudgetPerceptron, Forgetron, BudgetProjectron, SharedProjectron, Budgetron)
}


def load(path: str | os.PathLike[str], max_bytes: int | str = "1 GiB", engine: str | None = None) -> Any:
    """The model that `save` wrote, to go on bit for bit where it stopped.

    No code is run from the file, and nothing in it is believed before it was checked: a file that is damaged, too
    large, of another format or inconsistent is refused with `budgetron.errors.ModelFileError`.

    Parameters
    ----------
    path : str or path
    max_bytes : int or str, default="1 GiB"
        The largest file that is read, and the most that its model may allocate.
    engine : {"auto", "core", "numpy"}, optional
        In place of the engine that the model was made with. Either reads what the other wrote.
    """
    limit = budget_of("load", max_bytes, "max_bytes")
    if limit == budget_of("load", None):
        raise refuse("load", "max_bytes", 'a number of bytes or a size such as "1 GiB"', shown(max_bytes))
    if engine not in (None, "auto", "core", "numpy"):
        raise refuse("load", "engine", '"auto", "core", "numpy" or None', shown(engine))
    most = limit.bytes or limit.examples or 0
    text, arrays = unpacked(read_bytes(path, most))
    saved = read(text)
    return model_of(LEARNERS[saved.learner], saved, arrays, most, engine)
