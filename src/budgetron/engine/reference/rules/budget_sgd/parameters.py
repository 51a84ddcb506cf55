"""The parameters of BudgetSgd as numbers, as in model files. The estimator `BudgetSgd` has names for these numbers."""

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
    PASSIVE_AGGRESSIVE = 3  # min(C, ℓ/‖K̃_t‖²), where `rate` is C; see `rule`


class Maintenance(IntEnum):
    """The method of budget maintenance: what happens when more than B examples are stored."""

    # Here, the smallest example is the one whose term of f has the smallest norm; for MERGE, the one with the smallest
    # coefficient.
    REMOVE = 0  # the smallest example is evicted
    OLDEST = 1  # the oldest example is evicted
    RANDOM = 2  # a random example is evicted; the other coefficients grow, so that f keeps its expectation (BOGD)
    WEIGHTED = 3  # as RANDOM, but smaller examples are evicted with higher probability (BOGD++)
    REPLACE = 4  # one example is projected on the new example alone, which replaces it (BPA-S)
    PROJECT = 5  # the example whose projection on all others changes f least is evicted in this way
    PROJECT_SMALLEST = 6  # the smallest example is projected on all others, and evicted
    MERGE = 7  # the smallest example is merged with another one (Gaussian kernel)
    HALVE = 8  # the smaller half is projected on the larger half (Ahpatron)
    NYSTROM = 9  # the stored examples stay; steps are projected on their leading eigenvectors (NOGD)


# The methods that can bound ‖f‖. With other methods, the core would have to compute ‖f‖ again at every step.
WITH_RADIUS = (Maintenance.REMOVE, Maintenance.OLDEST, Maintenance.HALVE)


class Parameters(RuleParameters, frozen=True):
    step: Annotated[int, Meta(ge=0, le=int(max(Step)))] = int(Step.PEGASOS)
    maintenance: Annotated[int, Meta(ge=0, le=int(max(Maintenance)))] = int(Maintenance.PROJECT)
    rate: Annotated[float, Meta(gt=0.0)] = 1.0  # η, or C
    regularization: Annotated[float, Meta(ge=0.0)] = 0.0  # λ
    margin: Annotated[float, Meta(gt=0.0)] = 1.0  # examples with a smaller margin are learned
    radius: Annotated[float, Meta(ge=0.0)] = 0.0  # ‖f‖ ≤ radius √B, for `WITH_RADIUS` only; 0: no bound
    clip: Annotated[float, Meta(ge=0.0)] = 0.0  # γ: no coefficient above ηγ after a random eviction; 0: no bound
    rescale: bool = False  # whether `clip` multiplies all coefficients by one factor
    skip: bool = True  # whether passive-aggressive learning may skip an example
    eta: Annotated[float, Meta(ge=0.0)] = 0.0  # PROJECT…: examples at most this far from the span of S are projected
    ridge: Annotated[float, Meta(ge=0.0)] = 5e-4  # ϱ of halving
    rank: Annotated[float, Meta(gt=0.0, le=1.0)] = 0.2  # r/B of `nystrom`
    seed: Annotated[int, Meta(ge=0)] = 0
