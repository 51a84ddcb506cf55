"""The JSON of administration: corrections, decisions, versions, copies, limits and the audit log.

Requests that predict and learn are in `wire`. The OpenAPI document is made from the classes of both modules.
"""

from __future__ import annotations

from typing import Annotated, Any

from msgspec import UNSET, Meta, Struct, UnsetType

from budgetron.durable import Correction
from budgetron.service.http.wire import Key, Label, Rate, StrictDecoder


class CorrectionRequest(Struct, forbid_unknown_fields=True):
    """The correct label of a learned example, or `withdraw` to remove the example from the model.

    Name the record of the log that contains the example: either its number `position`, or the idempotency key `key` of
    the request that was recorded. `row` is the index of the example in the record, from 0; it may be left out if the
    record has one example.
    """

    position: Annotated[int, Meta(ge=1, le=2**53)] | UnsetType = UNSET
    key: Key | UnsetType = UNSET
    row: Annotated[int, Meta(ge=0, le=2**31)] | UnsetType = UNSET
    label: Label | UnsetType = UNSET
    withdraw: bool | UnsetType = UNSET
    reason: Annotated[str, Meta(max_length=500)] | UnsetType = UNSET


class OperatingPointRequest(Struct, forbid_unknown_fields=True):
    """How the model decides: by a `threshold`, or by `costs` of the decisions `fp` (false positive), `fn` (false
    negative) and, optionally, `ask` (leave it to a person). `max_error`, alone or in addition, limits the share of
    wrong decisions for each label. Examples that cannot be decided within this limit are left to a person. The limit
    holds with the probability `confidence` if the model no longer changes.

    If the model has an operating point already, its counts of scores and labels are kept, and the new thresholds are
    chosen from them at once.
    """

    threshold: float | UnsetType = UNSET
    costs: dict[str, float] | UnsetType = UNSET
    max_error: float | UnsetType = UNSET
    confidence: float | UnsetType = UNSET


class OperatingPointAnswer(Struct):
    """The change is on disk as record `position`. `operating_point` is null if the model no longer decides."""

    position: int
    operating_point: dict[str, Any] | None


class AuditLine(Struct):
    """One action of an administrator, or a correction by feedback. `details` depend on the action.

    `outcome` is `done`, the kind of the error, `interrupted` if the request was cancelled, or null if the action still
    runs or the service was killed during it.
    """

    number: int
    at: float
    who: str
    address: str
    action: str
    model: str | None
    outcome: str | None
    details: dict[str, Any]


class CorrectionAnswer(Struct):
    """The correction is on disk. `replayed` is how many examples were learned again: all examples after record
    `snapshot`. For a retry, `replayed`, `seconds` and `snapshot` are 0.
    """

    correction: Correction
    replayed: int
    seconds: float
    snapshot: int


class CorrectionsAnswer(Struct):
    """The latest 1,000 corrections, newest first."""

    corrections: list[Correction]


class LimitsRequest(Struct, forbid_unknown_fields=True):
    """New values of some limits; the other limits stay. `rate` is in examples per second and API key, for keys without
    a rate of their own. `address_rate` is in examples per second and client address, and `address_connections` in open
    connections per client address. Requests that take longer than `slow_seconds` are written to the slow log. 0 means
    no limit, or no slow log.
    """

    rate: Rate | UnsetType = UNSET
    address_rate: Rate | UnsetType = UNSET
    address_connections: Annotated[int, Meta(ge=0, le=10**6)] | UnsetType = UNSET
    slow_seconds: Annotated[float, Meta(ge=0, le=86_400)] | UnsetType = UNSET


class LimitsAnswer(Struct):
    """The limits that can be changed while the service runs, as they are now."""

    rate: float
    address_rate: float
    address_connections: int
    slow_seconds: float


class AuditAnswer(Struct):
    """The latest 1,000 lines of the audit log, newest first."""

    actions: list[AuditLine]


class CandidateRequest(Struct, forbid_unknown_fields=True):
    """Run a version beside the model in use, to compare them. The version predicts for a `share` of the tasks."""

    version: Annotated[str, Meta(min_length=1, max_length=64)]
    share: Annotated[float, Meta(ge=0.0, le=1.0)] = 0.0


class VersionItem(Struct):
    """A version: a model file. `at` is when it was saved, in seconds since 1970."""

    name: str
    bytes: int
    at: float


class VersionEvent(Struct):
    """The model was replaced. `action` is "activate", "rollback" or "promote"; the old model is saved as `replaced`."""

    at: float
    action: str
    version: str
    replaced: str
    position: int
    who: str


class VersionsAnswer(Struct):
    """All versions, and `events`, the last replacements of the model; both newest first. `rollback` is the version that
    POST rollback would restore.
    """

    versions: list[VersionItem]
    current: str | None
    rollback: str | None
    candidate: dict[str, Any] | None
    events: list[VersionEvent]


class CopyAnswer(Struct):
    """The copy of the model. `role` is the role of this service: owner, standby, former owner or none.

    `copied` is the last record in the copy, and `age_seconds` is how long ago the copy was last up to date. Only an
    owner and a former owner have these two fields.
    """

    role: str
    position: int
    url: str | None = None
    epoch: int | None = None
    copied: int | None = None
    age_seconds: float | None = None
    error: str | None = None


candidate_request = StrictDecoder(CandidateRequest)
correction_request = StrictDecoder(CorrectionRequest)
limits_request = StrictDecoder(LimitsRequest)
operating_point_request = StrictDecoder(OperatingPointRequest)
