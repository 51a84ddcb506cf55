"""The schema of the JSON text in a model file: field names, types and ranges.

msgspec validates the text against these classes while it decodes it; an unknown or missing field, a wrong type or a
number out of range is an error. Field names are the file format: renaming one makes existing files unreadable.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from budgetron.persist.file_errors import invalid

Count = Annotated[int, Meta(ge=1, le=2**53)]
Natural = Annotated[int, Meta(ge=0, le=2**53)]
NotNegative = Annotated[float, Meta(ge=0.0)]  # JSON has no infinity and no NaN
Columns = Annotated[int, Meta(ge=1, le=2**31 - 1)]
BeliefNumbers = tuple[NotNegative, NotNegative, NotNegative, NotNegative, NotNegative]
Dtype = Literal["float64", "float32"]
Learner = Literal[
    "Perceptron", "RandomBudgetPerceptron", "Forgetron", "BudgetProjectron", "SharedProjectron", "Budgetron"
]


class Part(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A JSON object without unknown fields."""


class Linear(Part, tag="linear", tag_field="kind", frozen=True):
    bias: NotNegative
    normalize: bool


class Polynomial(Part, tag="polynomial", tag_field="kind", frozen=True):
    degree: Annotated[int, Meta(ge=1, le=32)]
    bias: NotNegative
    normalize: bool


class Gaussian(Part, tag="gaussian", tag_field="kind", frozen=True):
    gamma: Annotated[float, Meta(gt=0.0)] | Literal["scale"]
    normalize: bool


Kernel = Linear | Polynomial | Gaussian


class Clique(Part, tag="clique", tag_field="kind", frozen=True):
    """With `tasks`, the tensor ``graph.N.clusters`` holds the cluster of each task."""

    coupling: NotNegative | Literal["inf"]
    n_tasks: Count | None
    tasks: list[Any] | None


class Similarity(Part, tag="similarity", tag_field="kind", frozen=True):
    """Tensors ``graph.N.component`` and ``graph.N.similarity`` (A⁻¹)."""

    tasks: list[Any]


class Sparse(Part, tag="sparse", tag_field="kind", frozen=True):
    """Tensors ``graph.N.component`` and ``graph.N.data``, ``.indices``, ``.indptr`` (A in CSR form)."""

    tasks: list[Any]
    singular: bool


Graph = Clique | Similarity | Sparse


class Flagship(Part, frozen=True):
    """The settings of Budgetron that other learners do not have."""

    beliefs: Annotated[list[BeliefNumbers], Meta(min_length=1, max_length=10_000)]
    shared: bool
    own: bool
    own_rank: Natural
    slots: Annotated[int, Meta(ge=0, le=2**31)]
    patience: Count
    whole: bool = False  # whether the shared linear part has a full covariance
    sure: Annotated[float, Meta(ge=0, le=1)] = 0.0  # a kernel belief is not updated where ω max|g| is below this


class Settings(Part, frozen=True):
    """The settings that the engine was created with; its graph is the first of `ModelRecord.graphs`."""

    kernel: Kernel | None
    n_features: Columns
    n_outputs: Count
    sparse: bool
    dtype: Dtype
    capacity: Count | None
    pool: Count | None
    eta: NotNegative
    seed: Annotated[int, Meta(ge=0)]
    max_task_rows: Annotated[int, Meta(ge=2, le=2**53)] | None
    column_cache: Annotated[int, Meta(ge=0, le=2**40)]
    flagship: Flagship | None


class Parameters(Part, frozen=True):
    """The constructor's parameters; each learner has some of these."""

    budget: Count | str | UnsetType | None = UNSET
    kernel: Kernel | UnsetType | None = UNSET
    graph: Annotated[int, Meta(ge=0, le=1)] | UnsetType | None = UNSET  # its position in `ModelRecord.graphs`
    eta: NotNegative | UnsetType = UNSET
    random_state: Annotated[int, Meta(ge=0)] | UnsetType | None = UNSET
    beliefs: str | list[BeliefNumbers] | UnsetType = UNSET
    own_rank: Natural | UnsetType = UNSET
    table: Count | str | UnsetType = UNSET
    max_task_rows: Annotated[int, Meta(ge=2, le=2**53)] | UnsetType | None = UNSET
    class_weight: str | list[tuple[Any, NotNegative]] | UnsetType | None = UNSET
    task_column: int | str | UnsetType | None = UNSET
    engine: Literal["auto", "core", "numpy"] | UnsetType = UNSET


class Labels(Part, frozen=True):
    """The classes, sorted; `dtype` in NumPy's notation, "O" for Python values."""

    dtype: Annotated[str, Meta(pattern=r"^(O|\|b1|\|[iu]1|<[iu][248]|<f[248]|(<U|\|S)[0-9]{1,7})$")]
    values: Annotated[list[Any], Meta(min_length=2)]
    settled: bool


class Column(Part, frozen=True):
    """A column of the files that the model learned from, and how it becomes columns of X."""

    name: Annotated[str, Meta(max_length=2**12)]
    kind: Literal["number", "category", "date", "text", "ignored"]
    gaps: bool = False  # number, date: whether a column of X marks missing values
    clock: bool = False  # date: whether it includes the time of day
    values: Annotated[list[str], Meta(max_length=2**10)] | None = None  # category: one column of X each; null: hashed
    note: Annotated[str, Meta(max_length=2**10)] = ""  # why it is of this kind; for display only


class Plan(Part, frozen=True):
    """The columns of a data file. Tensors ``columns.center``, ``.count``, ``.total``, ``.squares``: the scales."""

    layout: Literal["table", "svmlight", "vw"]
    label: Annotated[str, Meta(max_length=2**12)] | None
    whole_labels: bool  # whether labels are whole numbers; otherwise they are text
    task: Annotated[str, Meta(max_length=2**12)] | None
    columns: Annotated[list[Column], Meta(max_length=2**16)]
    hashed: Annotated[int, Meta(ge=0, le=2**30)]  # columns of X that words and many categories are hashed into
    label_note: Annotated[str, Meta(max_length=2**10)] = ""
    task_note: Annotated[str, Meta(max_length=2**10)] = ""


class ModelRecord(Part, frozen=True):
    """The whole JSON text of a model file. Everything learned is in the tensors ``state.NAME``."""

    learner: Learner
    version: Annotated[str, Meta(max_length=100)]  # of the budgetron that wrote it; for display only
    parameters: Parameters
    settings: Settings
    graphs: Annotated[list[Graph], Meta(min_length=1, max_length=2)]
    labels: Labels
    names: list[Any]  # of tasks with stored examples
    name_limit: Natural | None
    feature_names: list[Any] | None
    columns: Plan | None = None  # of a model that learned from files
    tasked: bool = False  # whether it was trained with tasks


def encode_record(saved: ModelRecord) -> bytes:
    """Encode a record as JSON text."""
    return msgspec.json.encode(saved)


def decode_record(text: bytes) -> ModelRecord:
    """Decode and validate the JSON text of a model file."""
    try:
        return msgspec.json.decode(text, type=ModelRecord)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise invalid("the settings", "valid for this format", f"invalid ones ({error})") from None
