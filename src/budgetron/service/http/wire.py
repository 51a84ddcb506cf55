"""The JSON of requests that predict and learn, and of their responses. `admin_wire` has the other classes.
The OpenAPI document is made from the classes of both modules. `docs_page` shows the definitions below.

features    a list of numbers; or a sparse row, {"indices": […], "values": […]}; or an object of features by name. The
            names are columns if the model has columns or was trained on a data frame, and are hashed otherwise.
            {"geo": {"lat": 1}} means {"geo.lat": 1}
task        a string or an integer; omitted if the model has a single task
label       a string, a number or a boolean
offset      another model's score in log odds; required by a Budgetron whose first example had one. With more than two
            classes, a list with one score per class
"""

from __future__ import annotations

import json
from typing import Annotated, Any, Generic, TypeVar

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType, structs
from starlette.responses import Response

JSON = "application/json"
# In every response, because browsers must neither guess the type of a response nor store it.
SAFE_HEADERS = {"x-content-type-options": "nosniff", "cache-control": "no-store"}

Features = list[float] | dict[str, Any]
Task = str | int | None
Label = bool | int | float | str
Id = Annotated[str, Meta(min_length=1, max_length=64)]
Key = Annotated[str, Meta(min_length=1, max_length=150)]
Weight = Annotated[float, Meta(ge=0)]
Rate = Annotated[float, Meta(ge=0, le=1e12)]
Offset = float | list[float]
Decoded = TypeVar("Decoded")
_NUMBERS = (float, int)


class Example(Struct, forbid_unknown_fields=True):
    """One example without a label."""

    features: Features
    task: Task = None
    offset: Offset | UnsetType = UNSET


class LabelledExample(Struct, forbid_unknown_fields=True):
    """One example with its label and an optional weight."""

    features: Features
    label: Label
    task: Task = None
    weight: Weight | UnsetType = UNSET
    offset: Offset | UnsetType = UNSET


class PredictRequest(Struct, forbid_unknown_fields=True):
    """One example, or several in `examples`.

    With `remember`, each prediction gets an id for labelling it later. With `explain`, it has `reasons`. `ask` is the
    share of predictions for which you can get a label. Predictions whose labels are worth asking for are then
    remembered and put into the labelling queue.
    """

    features: Features | UnsetType = UNSET
    task: Task = None
    examples: list[Example] | UnsetType = UNSET
    remember: bool | UnsetType = UNSET
    explain: bool | UnsetType = UNSET
    offset: Offset | UnsetType = UNSET
    ask: Annotated[float, Meta(gt=0, le=1)] | UnsetType = UNSET


class LearnRequest(Struct, forbid_unknown_fields=True):
    """One labelled example, or several in `examples`, which are learned together or rejected together.

    `key` is an idempotency key: a repeated request gets the first answer and is not learned again. `classes` lists all
    labels, in case the first examples do not contain them all.
    """

    features: Features | UnsetType = UNSET
    label: Label | UnsetType = UNSET
    task: Task = None
    weight: Weight | UnsetType = UNSET
    examples: list[LabelledExample] | UnsetType = UNSET
    classes: list[Label] | UnsetType = UNSET
    key: Key | UnsetType = UNSET
    offset: Offset | UnsetType = UNSET


class Verdict(Struct, forbid_unknown_fields=True):
    """The label of an earlier prediction."""

    id: Id
    label: Label


class FeedbackRequest(Struct, forbid_unknown_fields=True):
    """The label of one earlier prediction, or of several in `feedback`.

    `correct` replaces an earlier label, and `withdraw` removes the labelled example from the model. Both work as long
    as the example is in the log.
    """

    id: Id | UnsetType = UNSET
    label: Label | UnsetType = UNSET
    feedback: list[Verdict] | UnsetType = UNSET
    correct: bool | UnsetType = UNSET
    withdraw: bool | UnsetType = UNSET


class ExplanationTerm(Struct):
    """How much one feature, or another part of the model (`kind`), adds to the margin. `total` is the sum of three
    parts: from the weights of all tasks (`shared`), of the task itself (`own`), and of related tasks (`related`)."""

    name: str
    total: float
    shared: float
    own: float
    related: float
    kind: str


class StoredExample(Struct):
    """A stored example: its position in the stream, its task, its kernel value, and its contribution to the margin."""

    arrival: int
    task: Any
    similarity: float
    contribution: float


class Reasons(Struct):
    """`margin` is the margin of `label`: the sum of `terms`, `rest` (the smaller terms) and `remainder` (the effect of
    mixing several models)."""

    label: Any
    margin: float
    terms: list[ExplanationTerm]
    rest: float
    remainder: float
    nearest: list[StoredExample]


class Prediction(Struct, omit_defaults=True):
    """`margin` is one number, positive for the second class. With more than two classes, it is one number per class.

    `probabilities` are included if the model has them. `warning` says that the model does not know some feature names,
    or that most of the model's features are missing. A model with an operating point adds its `decision`, or `abstain`
    if a person should decide.
    """

    label: Any
    margin: float | list[float]
    probabilities: dict[str, float] | None = None
    id: str | None = None
    warning: str | None = None
    reasons: Reasons | None = None
    ask: bool | None = None  # whether its label is worth asking for
    decision: Any = None
    abstain: bool = False
    version: str | None = None  # of the candidate, if it answered


class QueueItem(Struct):
    """A prediction whose label is worth asking for: its id for `feedback`, its example, and the lead of its class: the
    largest margin minus the second largest, or |margin| with two classes."""

    id: str
    features: Any
    task: Any
    lead: float


class QueueAnswer(Struct):
    """The predictions about which the model was least confident, at most 100, and how many predictions wait in all."""

    queue: list[QueueItem]
    waiting: int


class Predictions(Struct):
    """The predictions in the order of the examples. `position` is the last record of the log at the time."""

    predictions: list[Prediction]
    position: int


class LearnAnswer(Struct, omit_defaults=True):
    """The examples are learned and on disk as record `position`. `margins` are their margins just before learning.

    `warning` is a sentence about the first example with unknown or missing features.
    """

    position: int
    learned: int
    repeated: bool
    margins: list[float | list[float]]
    warning: str | None = None


class FeedbackAnswer(Struct, omit_defaults=True):
    """The outcome of one label.

    `status` is `learned`, `repeated`, `corrected`, `withdrawn`, `conflict` (the prediction already has another label,
    or its label was withdrawn), `refused` or `unknown`.
    """

    id: str
    status: str
    position: int | None = None
    margin: float | list[float] | None = None
    message: str | None = None


class FeedbackAnswers(Struct):
    """The answers in the order of the labels."""

    feedback: list[FeedbackAnswer]


class ShardAnswer(Struct):
    """One shard: a learner with a share of the budget."""

    shard: int
    worker: str
    seen: int
    mistakes: int
    stored: int
    capacity: int | None
    memory_bytes: int


class ModelAnswer(Struct):
    """The settings of a model and its current statistics.

    The budget in `settings` is the total. `budget_scope` says which tasks compete for it. With `model`, all tasks
    compete for the total. With `shard`, the tasks of each shard compete for the share of this shard.
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
    beliefs: list[dict[str, float | str | bool]]
    budget_scope: str
    shards: list[ShardAnswer]
    operating_point: dict[str, Any] | None


class ModelsAnswer(Struct):
    """The names of the models; paths without a name belong to `default`."""

    models: list[str]


class TaskAnswer(Struct):
    """One task: how many examples the model stores for it, and its statistics (`figures`) since the service started or
    the model was replaced. `figures` is null if the task is not among the first 1,000 tasks with labels."""

    task: Any
    stored: int
    share: float
    figures: dict[str, Any] | None


class Done(Struct):
    """The change is on disk as record `position`."""

    position: int


class Problem(Struct):
    """`kind` is for programs, `message` for people: what is accepted, what was received, and the remedy."""

    kind: str
    message: str


class ProblemAnswer(Struct):
    """The request was rejected (4xx), and the model is unchanged; or the service failed (5xx).

    After a failure, the request may be sent again with the same idempotency key. It is not learned twice.
    """

    error: Problem


class StrictDecoder(Generic[Decoded]):
    """Decodes JSON as a class. Rejects objects with a repeated name, because parsers differ in which value they use."""

    def __init__(self, kind: type[Decoded]) -> None:
        self._decoder = msgspec.json.Decoder(kind)

    def decode(self, content: bytes) -> Decoded:
        value = self._decoder.decode(content)
        # Every name is followed by a colon. If the content has no more colons than the decoded value needs, no name
        # occurred twice. Counting colons is ten times faster than comparing all names. A colon in a string may be
        # escaped, so colons in strings count only if nothing is escaped.
        if content.count(b":") > _colons(value, b"\\" not in content):
            # `parse_int=float`, because Python refuses to parse integers of thousands of digits.
            json.loads(content, object_pairs_hook=_reject_repeated_names, parse_int=float)
        return value


def _colons(value: Any, in_strings: bool) -> int:
    """A lower bound on the colons in the JSON of a value. `in_strings`: whether to count colons in strings."""
    kind = type(value)
    if kind is str:
        return value.count(":") if in_strings else 0
    if kind is list:
        if not value or type(value[0]) in _NUMBERS:
            return 0
        return sum([_colons(part, in_strings) for part in value])
    if kind is dict:
        n = len(value) + sum([_colons(name, in_strings) for name in value])
        parts = list(value.values())
    elif isinstance(value, Struct):
        # A field that has its default may be missing in the JSON, so it does not count.
        defaults = kind.__struct_defaults__
        parts = [part for part in structs.astuple(value) if part not in defaults]
        n = len(parts)
    else:
        return 0
    for part in parts:
        if type(part) not in _NUMBERS:
            n += _colons(part, in_strings)
    return n


def _reject_repeated_names(pairs: list[tuple[str, Any]]) -> None:
    names: set[str] = set()
    for name, _ in pairs:
        if name in names:
            raise msgspec.ValidationError(f"an object that has the name {name[:80]!r} twice")
        names.add(name)


def fields_given(request: Struct, *names: str) -> str:
    """Those of the named fields that a request has, for an error message; "" if it has none of them."""
    given = [f'"{name}"' for name in names if getattr(request, name) not in (UNSET, None)]
    return " and ".join([", ".join(given[:-1]), given[-1]] if len(given) > 1 else given)


encode = msgspec.json.Encoder().encode
predict_request = StrictDecoder(PredictRequest)
learn_request = StrictDecoder(LearnRequest)
feedback_request = StrictDecoder(FeedbackRequest)
example_line = StrictDecoder(Example)
labelled_line = StrictDecoder(LabelledExample)


def reply(content: bytes, status: int = 200, media_type: str = JSON, headers: dict[str, str] | None = None) -> Response:
    """A response with a complete body, as opposed to a stream."""
    return Response(content, status, SAFE_HEADERS if not headers else SAFE_HEADERS | headers, media_type)
