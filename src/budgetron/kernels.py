"""Kernels between instances: `Linear`, `Polynomial` and `Gaussian`.

    K'(x, x') = k(⟨x, x'⟩, ‖x‖², ‖x'‖²)

A kernel is a function of an inner product and two squared norms, and of nothing else. So kernels do not depend on how
rows are stored: the store of dense rows and the store of sparse rows compute the inner products, and every kernel works
with both. A kernel of your own is a subclass of `Kernel` with `of_products`; it runs on the NumPy engine.

>>> import numpy as np
>>> from budgetron import kernels
>>> kernel = kernels.Polynomial(degree=2, bias=1.0, normalize=True)
>>> x = np.array([0.6, 0.8]); z = np.array([1.0, 0.0])
>>> float(kernel(x, x)), round(float(kernel(x, z)), 6)
(1.0, 0.64)
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from budgetron.errors import input_error, is_integer, is_real, shown

Array = NDArray[np.float64]


class Kernel(ABC):
    """A positive semidefinite function of an inner product and two squared norms."""

    normalize: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.normalize, bool):
            raise input_error(type(self).__name__, "normalize", "True or False", repr(self.normalize))

    @abstractmethod
    def of_products(self, dot: Array, sq_a: Array, sq_b: Array) -> Array:
        """Return K' before normalisation, elementwise, from ⟨a, b⟩, ‖a‖² and ‖b‖²."""

    def checked_values(self, dot: Array, sq_a: Array, sq_b: Array) -> Array:
        """Return `of_products`, and check its result, because a kernel of your own may return something wrong."""
        result = self.of_products(dot, sq_a, sq_b)
        values: Any = np.asarray(result)
        who, what, shape = type(self).__name__, "the result of of_products", np.shape(dot)
        are_numbers = values.dtype.kind in "fiub"
        if not are_numbers or values.shape != shape:
            kind = f"dtype {values.dtype}" if isinstance(result, np.ndarray) else shown(result)
            got = f"shape {values.shape}" if are_numbers else kind
            remedy = "Compute one kernel value for each element of dot, sq_a and sq_b."
            raise input_error(who, what, f"real numbers of shape {shape}, like its arguments", got, remedy)
        if np.isnan(values).any():
            arguments = np.broadcast_arrays(dot, sq_a, sq_b)
            # If an argument is not finite, NaN is not the kernel's fault.
            is_wrong = np.isnan(values) & np.isfinite(arguments).all(axis=0)
            if is_wrong.any():
                first = [float(argument[is_wrong][0]) for argument in arguments]
                got = "NaN for dot = {:g}, sq_a = {:g} and sq_b = {:g}".format(*first)
                remedy = "A kernel must have a finite value for every pair of rows."
                raise input_error(who, what, "without NaN", got, remedy)
        return values[()]  # type: ignore[no-any-return]  # [()] turns a zero-dimensional array into a number

    def of_self(self, sq: Array) -> Array:
        """Return K'(x, x) as the learner uses it: 1 if normalised (0 if K'(x, x) is 0)."""
        raw = self.checked_values(sq, sq, sq)
        # 1 is set and not computed, because a division would leave a rounding error.
        return np.where(raw > 0, 1.0, 0.0) if self.normalize else raw

    def row(self, dot: Array, sq_a: Array, sq_b: Array) -> Array:
        """Return K' as the learner uses it: divided by √(K'(a,a) K'(b,b)) if normalised."""
        values = self.checked_values(dot, sq_a, sq_b)
        if not self.normalize:
            return values
        # Two square roots instead of one of the product, which could overflow.
        scale = np.sqrt(self.checked_values(sq_a, sq_a, sq_a)) * np.sqrt(self.checked_values(sq_b, sq_b, sq_b))
        normalised: Array = np.divide(values, scale, out=np.zeros_like(values), where=scale > 0)
        return normalised

    def __call__(self, a: ArrayLike, b: ArrayLike) -> Array:
        """Return K'(a, b) of two vectors, or between the rows of two arrays."""
        a, b = np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)
        dot = a @ b.T
        sq_a, sq_b = (a * a).sum(axis=-1), (b * b).sum(axis=-1)
        if a.ndim == b.ndim == 2:
            sq_a = sq_a[:, None]
        return self.row(np.asarray(dot), *np.broadcast_arrays(sq_a, sq_b))


@dataclass(frozen=True)
class Linear(Kernel):
    """The linear kernel ⟨x, x'⟩ + bias."""

    bias: float = 0.0
    normalize: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_bias("Linear", self.bias)

    def of_products(self, dot: Array, sq_a: Array, sq_b: Array) -> Array:
        return dot + self.bias


@dataclass(frozen=True)
class Polynomial(Kernel):
    """The polynomial kernel (⟨x, x'⟩ + bias)^degree."""

    degree: int = 2
    bias: float = 1.0
    normalize: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if not is_integer(self.degree) or not 1 <= self.degree <= 32:
            raise input_error("Polynomial", "degree", "an integer from 1 to 32", repr(self.degree))
        _check_bias("Polynomial", self.bias)

    def of_products(self, dot: Array, sq_a: Array, sq_b: Array) -> Array:
        return (dot + self.bias) ** int(self.degree)


@dataclass(frozen=True)
class Gaussian(Kernel):
    """The Gaussian (RBF) kernel exp(−γ‖x − x'‖²).

    ``gamma="scale"`` means γ = 1/(d · v), where d is the number of features and v the variance of the entries of the
    first 64 rows that are learned. For sparse rows γ is estimated after 1, 2, 4, … 64 rows; for dense rows after 32
    and 64 rows, and before that it is 1/d. After 64 rows γ is constant. It is the same however a stream is divided into
    blocks. If the entries do not vary, γ is 1/d.
    """

    gamma: float | str = "scale"
    normalize: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.gamma != "scale" and not (is_real(self.gamma) and self.gamma > 0):
            raise input_error("Gaussian", "gamma", 'a positive number or "scale"', repr(self.gamma))

    def of_products(self, dot: Array, sq_a: Array, sq_b: Array) -> Array:
        if isinstance(self.gamma, str):
            raise input_error(
                "Gaussian",
                "gamma",
                "a number when the kernel is computed",
                repr(self.gamma),
                'Give a number; only a learner can resolve "scale", from its first rows.',
            )
        # Rounding can make the squared distance of nearly equal rows negative, and the kernel larger than 1.
        return np.exp(-self.gamma * np.maximum(sq_a + sq_b - 2.0 * dot, 0.0))


BUILT_IN = (Linear, Polynomial, Gaussian)
"""The kernels of this module. The compiled core has them too."""


def _check_bias(who: str, bias: Any) -> None:
    if not is_real(bias) or bias < 0:
        raise input_error(
            who, "bias", "a finite number >= 0", repr(bias), "Below 0 the kernel is not positive semidefinite."
        )
