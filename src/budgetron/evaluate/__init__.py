"""Progressive validation: predict each example, then learn it, and count errors per task, overall and over time.

`progressive` evaluates a learner on a complete stream, `Validator` on a stream that arrives in pieces, and `Comparison`
evaluates several learners at once. The command line, the service and the report use their results. Memory does not grow
with the length of the stream.

>>> import numpy as np
>>> from budgetron import SharedProjectron, evaluate, kernels
>>> rng = np.random.default_rng(0)
>>> X = rng.standard_normal((600, 4)); users = rng.integers(0, 3, size=600)
>>> y = np.where(X[:, 0] + 0.3 * X[:, 1] * (users - 1) > 0, "spam", "ham")
>>> model = SharedProjectron(budget=20, kernel=kernels.Gaussian(gamma=0.2))
>>> result = evaluate.progressive(model, (X, y, users), window=200)
>>> result.overall.n, result.overall.error < 0.2, sorted(result.per_task)
(600, True, [0, 1, 2])
>>> [point.position for point in result.curve]
[200, 400, 600]
"""

from budgetron.evaluate.compare import ComparedModel, Comparison
from budgetron.evaluate.curve import Point
from budgetron.evaluate.drift import Adwin, Alarm
from budgetron.evaluate.importance import FeatureImportance, Importance
from budgetron.evaluate.metrics.calibration import Calibration
from budgetron.evaluate.metrics.confusion import Confusion
from budgetron.evaluate.metrics.counts import Figures
from budgetron.evaluate.metrics.ranking import Ranking
from budgetron.evaluate.progressive import progressive
from budgetron.evaluate.result import Validation
from budgetron.evaluate.task_curves import TaskCurve
from budgetron.evaluate.validator import Validator

__all__ = [
    "Adwin",
    "Alarm",
    "Calibration",
    "ComparedModel",
    "Comparison",
    "Confusion",
    "FeatureImportance",
    "Figures",
    "Importance",
    "Point",
    "Ranking",
    "TaskCurve",
    "Validation",
    "Validator",
    "progressive",
]
