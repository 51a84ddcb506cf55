"""What requests and answers look like. The OpenAPI document is made from these classes.

features    a list of numbers; or {"indices": […], "values": […]}, a sparse row; or an object of features by name, which
            are the columns of a model that has columns (or was trained on a data frame), and are hashed otherwise
task        a string or an integer; left out where there is one task
label       a string, an integer or a boolean
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

Features = list[float] | dict[str, Any]
Task = str | int | None
Label = bool | int | float | str
Id = Annotated[str, Meta(min_length=1, max_length=64)]
Key = Annotated[str, Meta(min_length=1, max_length=150)]
Weight = Annotated[float, Meta(ge=0)]


class Example(Struct, forbid_unknown_fields=True):
    """One example without a label."""

    features: Features
    task: Task = None


class LabelledExample(Struct, forbid_unknown_fields=True):
    """One example with its label, and perhaps a weight."""

    features: Features
    label: Label
    task: Task = None
    weight: Weight | UnsetType = UNSET


class PredictRequest(Struct, forbid_unknown_fields=True):
    """One example, or many in `examples`. With `remember` each prediction gets an id, to send its label to later."""

    features: Features | UnsetType = UNSET
    task: Task = None
    examples: list[Example] | UnsetType = UNSET
    remember: bool = False


class LearnRequest(Struct, forbid_unknown_fields=True):
    """One labelled example, or many in `examples`, learned together or refused together.

    The same `key` again gets the first answer and teaches nothing. `classes` names all labels, where the first
    examples may not show them all.
    """

    features: Features | UnsetType = UNSET
    label: Label | UnsetType = UNSET
    task: Task = None
    weight: Weight | UnsetType = UNSET
    examples: list[LabelledExample] | UnsetType = UNSET
    classes: list[Label] | UnsetType = UNSET
    key: Key | UnsetType = UNSET


class Verdict(Struct, forbid_unknown_fields=True):
    """The label of an earlier prediction."""

    id: Id
    label: Label


class FeedbackRequest(Struct, forbid_unknown_fields=True):
    """The label of one earlier prediction, or of many in `feedback`."""

    id: Id | UnsetType = UNSET
    label: Label | UnsetType = UNSET
    feedback: list[Verdict] | UnsetType = UNSET


class Prediction(Struct, omit_defaults=True):
    """`margin` is positive for the second class, or one number a class; `probabilities` where the model has them."""

    label: Any
    margin: float | list[float]
    probabilities: dict[str, float] | None = None
    id: str | None = None


class Predictions(Struct):
    """The answers in the order of the examples, by the model as it was after record `position`."""

    predictions: list[Prediction]
    position: int


class LearnAnswer(Struct):
    """What was learned is on disk, as record `position`. `margins` are those before learning."""

    position: int
    learned: int
    repeated: bool
    margins: list[float | list[float]]


class FeedbackAnswer(Struct, omit_defaults=True):
    """What became of one label: `learned`, `repeated` (the same came before), `conflict` (another did) or `unknown`."""

    id: str
    status: str
    position: int | None = None
    margin: float | list[float] | None = None
    message: str | None = None


class FeedbackAnswers(Struct):
    """The answers in the order of the labels."""

    feedback: list[FeedbackAnswer]


class ShardAnswer(Struct):
    """One shard: a learner of its own, with its own budget."""

    shard: int
    worker: str
    seen: int
    mistakes: int
    stored: int
    capacity: int | None
    memory_bytes: int


class ModelAnswer(Struct):
    """A model: what it was made with, and what it holds now.

    The budget among the settings is the total. `budget_scope` says who competes for it: all tasks of the `model`; or
    those of each `shard`, for its share.
    """

    name: str
    learner: str
    settings: dict[str, str]
    columns: list[dict[str, Any]] | None
    begun: bool
    position: int
    seen: int
    mistakes: int
    stored: int
    capacity: int | None
    memory_bytes: int
    classes: list[Any]
    n_features: int | None
    budget_share: dict[str, float]
    beliefs: list[dict[str, float]]
    budget_scope: str
    shards: list[ShardAnswer]


class ModelsAnswer(Struct):
    """The names of the models; `default` is the one of the short paths."""

    models: list[str]


class TaskAnswer(Struct):
    """One task: how well it was predicted since the service started, and what is stored for it."""

    task: Any
    stored: int
    share: float
    figures: dict[str, Any] | None


class Done(Struct):
    """It is done, and on disk."""

    position: int


class Problem(Struct):
    """`kind` is for programs, `message` for people: who, what is accepted, what came, and the remedy."""

    kind: str
    message: str


class ProblemAnswer(Struct):
    """Something was refused; the model is as it was."""

    error: Problem


encode = msgspec.json.Encoder().encode
predict_request = msgspec.json.Decoder(PredictRequest)
learn_request = msgspec.json.Decoder(LearnRequest)
feedback_request = msgspec.json.Decoder(FeedbackRequest)
example_line = msgspec.json.Decoder(Example)
labelled_line = msgspec.json.Decoder(LabelledExample)
