"""The parameters of BudgetSgd as numbers; `learners.budget_sgd` names them in words."""

from __future__ import annotations

from enum import IntEnum
from typing import Annotated

from msgspec import Meta

from budgetron.engine.reference.declaration import RuleParameters


class Step(IntEnum):
    """How long a step is. t counts all examples, from 1."""

    CONSTANT = 0  # η
    ROOT = 1  # η / √t
    PEGASOS = 2  # 1 / (λt)
    PASSIVE_AGGRESSIVE = 3  # min(C, ℓ/K_tt), with C in the place of η


class Upkeep(IntEnum):
    """What happens to the B + 1st example."""

    REMOVE = 0  # the smallest is removed
    OLDEST = 1  # the oldest is removed
    RANDOM = 2  # a random one is removed, the others grow to make up for it (BOGD)
    WEIGHTED = 3  # the same, small ones more probably
    REPLACE = 4  # one is projected on the new example alone, which takes its place (BPA-S)
    PROJECT = 5  # the one of least loss is projected on all others
    PROJECT_SMALLEST = 6  # the smallest is projected on all others
    MERGE = 7  # the smallest is merged with another one (Gaussian kernel)
    HALVE = 8  # the smaller half is projected on the larger one (Ahpatron)
    NYSTROM = 9  # the stored examples stay; steps are projected on their largest eigenvectors (NOGD)


class Parameters(RuleParameters, frozen=True):
    step: Annotated[int, Meta(ge=0, le=int(max(Step)))] = int(Step.PEGASOS)
    upkeep: Annotated[int, Meta(ge=0, le=int(max(Upkeep)))] = int(Upkeep.PROJECT)
    rate: Annotated[float, Meta(gt=0.0)] = 1.0  # η, or C
    regularization: Annotated[float, Meta(ge=0.0)] = 0.0  # λ
    margin: Annotated[float, Meta(gt=0.0)] = 1.0  # learn where the margin is below it
    radius: Annotated[float, Meta(ge=0.0)] = 0.0  # ‖f‖ ≤ radius √B; 0: no bound
    clip: Annotated[float, Meta(ge=0.0)] = 0.0  # γ: no coefficient of BOGD above ηγ; 0: no bound
    rescale: bool = False  # whether all coefficients shrink until none is above ηγ, instead of those that are
    skip: bool = True  # whether a passive-aggressive step may leave out an example
    eta: Annotated[float, Meta(ge=0.0)] = 0.0  # an example closer to the span of the others is projected
    ridge: Annotated[float, Meta(ge=0.0)] = 5e-4  # ϱ of halving
    rank: Annotated[float, Meta(gt=0.0, le=1.0)] = 0.2  # k/B of Nyström
    seed: Annotated[int, Meta(ge=0)] = 0
