"""The declarations of a rule: the class attributes and class methods by which other modules know a rule.

    name, Parameters        model files, the compiled core, `Settings.parameters`
    layout, verify          model files: names, dtypes and shapes of the state's arrays, and which numbers are possible
    bytes_beyond, planned   the memory planner (`engine.memory`)
    to_core, from_core      the compiled engine, if its arrays differ from those of the NumPy engine

The right column says which modules read these names. `Rule` inherits the defaults, and each rule overrides those that
do not fit its state or its memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import msgspec
from numpy.typing import NDArray

from budgetron.engine import memory
from budgetron.engine.saved_state import Layout, counts_fields, require, store_fields
from budgetron.engine.settings import Settings

if TYPE_CHECKING:
    from budgetron.engine.first_rows import FirstRows

Arrays = Mapping[str, NDArray[Any]]


class RuleParameters(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The parameters of one rule. A field's type and range are checked when a model file is read.

    A field is a number, a boolean, None, or a list, which may be nested. The core receives a list as a flat array of
    doubles.
    """


class Declaration:
    """The declarations of a rule, with defaults for a rule that stores examples and has no state of its own."""

    name: ClassVar[str]
    Parameters: ClassVar[type[RuleParameters]] = RuleParameters
    needs_kernel: ClassVar[bool] = True
    stores_examples: ClassVar[bool] = False  # True for every `KernelRule`
    fixed_bytes: ClassVar[int] = memory.FIXED  # bytes that do not depend on the settings
    follows_factor: ClassVar[bool] = False  # whether it couples the tasks of an explicit graph by `graphs.factor_of`

    @classmethod
    def check(cls, settings: Settings) -> None:
        """Reject settings, read from a model file, that contradict each other."""
        require(settings.kernel is not None or not cls.needs_kernel, "kernel", "a kernel", "null")

    # ---- state

    @classmethod
    def layout(cls, settings: Settings, arrays: Arrays) -> Layout:
        """Return the fields of a state. Sizes that depend on the data are taken from the lengths of `arrays`."""
        return counts_fields() | store_fields(settings, arrays)

    @classmethod
    def verify(cls, settings: Settings, arrays: Arrays) -> None:
        """Reject numbers, in arrays of the right shapes, that learning cannot produce; see `engine.saved_state`."""

    @classmethod
    def sized_for(cls, settings: Settings, arrays: Arrays) -> Settings:
        """Return settings with the sizes of this state, so that `bytes_of` of these settings is the state's memory.

        Called when a model file is checked against the largest allowed size, also if its settings have no limit.
        """
        return settings

    @classmethod
    def to_core(cls, state: dict[str, Any]) -> dict[str, Any]:
        """Convert a state to the names and arrays of the compiled rule."""
        return state

    @classmethod
    def from_core(cls, state: dict[str, Any]) -> dict[str, Any]:
        """Convert a state of the compiled rule to a state of the NumPy engine."""
        return state

    # ---- a model that is planned from its first rows, see `engine.first_rows`

    @classmethod
    def keeps_first_rows(cls, settings: Settings) -> bool:
        """Whether a model with these settings keeps its first rows, to be planned again from them."""
        return False

    @classmethod
    def planned_from(cls, settings: Settings, first_rows: FirstRows, compiled: bool) -> Settings:
        """Return the settings of the model that learns the first rows again, and keeps no first rows itself."""
        raise NotImplementedError

    # ---- memory

    @classmethod
    def bytes_beyond(cls, settings: Settings, compiled: bool) -> int:
        """Return an upper bound of the rule's own bytes, beyond stored rows, their bookkeeping and the graph."""
        return 0

    @classmethod
    def is_bounded(cls, settings: Settings) -> bool:
        """Whether these settings bound the memory."""
        return settings.capacity is not None

    @classmethod
    def with_capacity(cls, settings: Settings, capacity: int, limit: int, nonzeros: float) -> Settings:
        """Return the settings with this capacity, and with all other sizes chosen to fit into `limit` bytes."""
        return memory.with_pool(settings, capacity, nonzeros)

    @classmethod
    def planned(cls, settings: Settings, limit: int, nonzeros: float, compiled: bool) -> Settings | None:
        """Turn a byte budget into settings; None if it is too small.

        The default is the largest capacity that fits. A rule that divides bytes differently overrides it; its settings
        must satisfy `memory.bytes_of(settings, compiled) <= limit`.
        """
        return memory.largest_within(
            lambda capacity: cls.with_capacity(settings, capacity, limit, nonzeros), limit, compiled
        )

    @classmethod
    def resized(
        cls, who: str, settings: Settings, state: dict[str, Any], budget: memory.Budget, compiled: bool
    ) -> tuple[Settings, dict[str, Any]] | None:
        """Return the settings and the state of a model in use, changed to another budget.

        The default, None, is for rules that store examples: the caller evicts their surplus examples one by one.
        """
        return None

    @classmethod
    def check_resize(cls, who: str, settings: Settings, budget: int | str) -> None:
        """Raise an `InputError` if a model in use cannot change to this budget."""
