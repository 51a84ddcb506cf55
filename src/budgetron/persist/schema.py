"""The schema of the JSON text in a model file: field names, types and ranges.

msgspec validates the text against these classes while it decodes it; an unknown or missing field, a wrong type or a
number out of range is an error. Field names are the file format: renaming one makes existing files unreadable.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from budgetron.file_errors import invalid

Count = Annotated[int, Meta(ge=1, le=2**53)]
Natural = Annotated[int, Meta(ge=0, le=2**53)]
NotNegative = Annotated[float, Meta(ge=0.0)]  # JSON has no infinity and no NaN
Columns = Annotated[int, Meta(ge=1, le=2**31 - 1)]
Dtype = Literal["float64", "float32"]


class JsonObject(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A JSON object without unknown fields."""


class Linear(JsonObject, tag="linear", tag_field="kind", frozen=True):
    bias: NotNegative
    normalize: bool


class Polynomial(JsonObject, tag="polynomial", tag_field="kind", frozen=True):
    degree: Annotated[int, Meta(ge=1, le=32)]
    bias: NotNegative
    normalize: bool


class Gaussian(JsonObject, tag="gaussian", tag_field="kind", frozen=True):
    gamma: Annotated[float, Meta(gt=0.0)] | Literal["scale"]
    normalize: bool


Kernel = Linear | Polynomial | Gaussian


class Clique(JsonObject, tag="clique", tag_field="kind", frozen=True):
    """A complete, disconnected or clustered graph. For clusters, ``graph.N.clusters`` has the cluster of each task."""

    coupling: NotNegative | Literal["inf"]
    n_tasks: Count | None
    tasks: list[Any] | None


class Similarity(JsonObject, tag="similarity", tag_field="kind", frozen=True):
    """A graph by its similarities. Its tensors are ``graph.N.component`` and ``graph.N.similarity`` (A⁻¹)."""

    tasks: list[Any]


class Sparse(JsonObject, tag="sparse", tag_field="kind", frozen=True):
    """A graph by its sparse matrix A.

    Its tensors are ``graph.N.component``, and A in CSR form: ``graph.N.data``, ``.indices`` and ``.indptr``.
    """

    tasks: list[Any]
    singular: bool


Graph = Clique | Similarity | Sparse


OLD_PARAMETERS = ("eta", "seed", "max_task_rows", "flagship")


class SettingsRecord(JsonObject, frozen=True):
    """The settings that the engine was created with; its graph is the first of `ModelRecord.graphs`."""

    kernel: Kernel | None
    n_features: Columns
    n_outputs: Count
    sparse: bool
    dtype: Dtype
    capacity: Count | None
    pool: Count | None
    column_cache: Annotated[int, Meta(ge=0, le=2**40)]
    parameters: dict[str, Any] | UnsetType = UNSET  # parameters of the rule, which declares their types and ranges
    # Format 1 has these in place of `parameters`.
    eta: Any = UNSET
    seed: Any = UNSET
    max_task_rows: Any = UNSET
    flagship: dict[str, Any] | UnsetType | None = UNSET


class Labels(JsonObject, frozen=True):
    """The classes, sorted; `dtype` in NumPy's notation, "O" for Python values.

    `settled` is false while only the positive label has been seen, and the negative one is a guess.
    """

    dtype: Annotated[str, Meta(pattern=r"^(O|\|b1|\|[iu]1|<[iu][248]|<f[248]|(<U|\|S)[0-9]{1,7})$")]
    values: Annotated[list[Any], Meta(min_length=2)]
    settled: bool


class Column(JsonObject, frozen=True):
    """A column of the files that the model learned from, and how it becomes columns of X."""

    name: Annotated[str, Meta(max_length=2**12)]
    kind: Literal["number", "category", "date", "text", "ignored"]
    gaps: bool = False  # number, date: whether a column of X marks missing values
    clock: bool = False  # date: whether it includes the time of day
    values: Annotated[list[str], Meta(max_length=2**10)] | None = None  # category: one column of X each; null: hashed
    note: Annotated[str, Meta(max_length=2**10)] = ""  # why it is of this kind; for display only
    format: Literal["", "1.234,5", "1,234.5"] = ""  # number: how it is written, if not as 1234.5
    missing: Annotated[list[str], Meta(max_length=2**10)] = []  # values that mean "missing", besides the usual ones


class Plan(JsonObject, frozen=True):
    """The columns of a data file.

    The tensors ``columns.center``, ``.count``, ``.total`` and ``.squares`` are the scales of its numbers and dates.
    """

    layout: Literal["table", "svmlight", "vw"]
    label: Annotated[str, Meta(max_length=2**12)] | None
    whole_labels: bool  # whether labels are whole numbers; otherwise they are text or, with `truth_labels`, booleans
    task: Annotated[str, Meta(max_length=2**12)] | None
    columns: Annotated[list[Column], Meta(max_length=2**16)]
    hashed: Annotated[int, Meta(ge=0, le=2**30)]  # number of columns of X for hashed words and values
    label_note: Annotated[str, Meta(max_length=2**10)] = ""
    task_note: Annotated[str, Meta(max_length=2**10)] = ""
    truth_labels: bool = False  # whether labels are true and false
    weight: Annotated[str, Meta(max_length=2**12)] | None = None  # the column with the weight of an example
    offset: Annotated[str, Meta(max_length=2**12)] | None = None  # the column with another model's score


class SavedCosts(JsonObject, frozen=True):
    """The costs of a false positive, of a false negative, and of asking a person."""

    fp: Annotated[float, Meta(gt=0, le=1e100)]
    fn: Annotated[float, Meta(gt=0, le=1e100)]
    ask: Annotated[float, Meta(ge=0, le=1e100)] | None


class Point(JsonObject, frozen=True):
    """An operating point. Tensors ``decisions.counts`` and ``decisions.decided``: see `decisions.operating_point`."""

    threshold: Annotated[float, Meta(ge=-1e100, le=1e100)] | None
    costs: SavedCosts | None
    max_error: Annotated[float, Meta(gt=0, lt=1)] | None
    confidence: Annotated[float, Meta(gt=0, lt=1)]
    log_odds: bool  # whether scores are log odds; otherwise margins
    scale: Annotated[float, Meta(gt=0, le=1e100)] | None
    cuts: Annotated[list[Annotated[int, Meta(ge=0, le=2**10)]], Meta(max_length=2**16)]
    next_choice: Annotated[int, Meta(ge=1, le=2**62)]
    has_labels: bool = msgspec.field(name="begun")  # whether the labels are known


# The JSON types of the constructor parameters that several learners have. The types of all other parameters come from
# the signature of their learner.
COMMON_PARAMETERS: dict[str, Any] = {
    "budget": Count | str | None,
    "kernel": Kernel | None,
    "graph": Annotated[int, Meta(ge=0, le=1)] | None,  # its position in `ModelRecord.graphs`
    "class_weight": str | list[tuple[Any, NotNegative]] | None,
    "engine": Literal["auto", "core", "numpy"],
}


class ModelRecord(JsonObject, frozen=True):
    """The whole JSON text of a model file. The state of the engine is in the tensors ``state.NAME``."""

    learner: Annotated[str, Meta(max_length=100)]
    version: Annotated[str, Meta(max_length=100)]  # the version of budgetron that wrote the file; for display only
    parameters: dict[str, Any]  # parameters of the constructor, validated by `learners.lifecycle.saved`
    settings: SettingsRecord
    graphs: Annotated[list[Graph], Meta(min_length=1, max_length=2)]
    labels: Labels
    names: list[Any]  # the names of tasks with stored examples
    name_limit: Natural | None  # the largest number of bytes that `names` may take
    feature_names: list[Any] | None
    columns: Plan | None = None  # only for a model that learned from files
    tasked: bool = False  # whether it was trained with tasks
    point: Point | None = None  # the operating point, if the model has one
    offset: bool = False  # whether it was trained with another model's scores


def encode_record(saved: ModelRecord) -> bytes:
    """Encode a record as JSON text."""
    return msgspec.json.encode(saved)


def decode_record(text: bytes) -> ModelRecord:
    """Decode and validate the JSON text of a model file."""
    try:
        return msgspec.json.decode(text, type=ModelRecord)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise invalid("the settings", "valid for this format", f"invalid ones ({error})") from None
