"""`Candidate`: a second model that learns the same labels as the model in use, and is compared with it.

The candidate reads the new records of the host's log after each commit, so it needs no log of its own. Labels that
arrive while the candidate learns have to wait. A snapshot of the host deletes the records before the previous snapshot
from the log. So the candidate is saved after each snapshot. After a restart, the candidate is loaded as it was last
saved, and learns the later records again. With a share above 0 it answers the predictions for that share of the tasks.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import msgspec

from budgetron.durable import HostedModel, Learned, ModelHost, Request
from budgetron.durable.blocks import decode_block
from budgetron.durable.hosted_model import hosted_model_from
from budgetron.durable.versions import CandidateState, Versions
from budgetron.errors import InputError
from budgetron.service.monitoring.statistics import LiveStatistics

_NO_ANSWERS: Mapping[int, Learned] = {}


class Candidate:
    """The candidate of one model. While the service runs, only the writer thread calls `follow` and `save`.

    Any thread may predict.
    """

    def __init__(self, content: bytes, state: CandidateState, host: ModelHost, versions: Versions) -> None:
        self.hosted: HostedModel = hosted_model_from(content)
        self.state = state
        self._host, self._versions = host, versions
        self._position, self._saved_at = state.position, host.snapshot_record
        # Both objects count the same examples, so that the two models can be compared.
        self.statistics_of_current, self.statistics_of_candidate = LiveStatistics(), LiveStatistics()
        # How many records the candidate rejected, and how many left the log before the candidate could read them.
        self.refused = self.skipped = 0
        self.reason = ""  # the message of its latest error in learning or predicting

    @property
    def version(self) -> str:
        return self.state.version

    def answers(self, task: Any) -> bool:
        """Whether the candidate predicts for this task. A higher share adds tasks and removes none."""
        return self.state.share > 0 and _uniform_hash(task) < self.state.share

    def set_share(self, share: float) -> None:
        self.state = msgspec.structs.replace(self.state, share=share)
        self.save()

    # ---- learning

    def follow(self, answers: Mapping[int, Learned] = _NO_ANSWERS) -> None:
        """Learn the records that the host has committed since the last call.

        `answers` has the host's acknowledgements by record number, with the margins of the model in use. Only these
        records are counted in the statistics that compare the two models.
        """
        host = self._host
        oldest = host.oldest_snapshot
        if self._position < oldest:  # the model was replaced, or the log was trimmed before the candidate read it
            self.skipped += oldest - self._position
            self._position = oldest
        for record in host.records_after(self._position):
            self._position = record.number
            if record.block is not None:
                self._learn(record.number, record.block, answers.get(record.number))
        if host.snapshot_record != self._saved_at:
            # The next snapshot may trim records from the log that the stored candidate would still need.
            self.save()

    def continue_after(self, position: int) -> None:
        """Continue after record `position`, which replaced the model in use and therefore has no labels."""
        self._position = position
        self.save()

    def _learn(self, number: int, block: bytes, answer: Learned | None) -> None:
        logged = decode_block(block)
        try:
            margins = self.hosted.learn(logged)
        except InputError as error:
            self.refused, self.reason = self.refused + 1, str(error)
            return
        labels = logged.examples.labels
        if answer is None or labels is None or not len(margins):
            return
        request = Request(None, labels, logged.examples.tasks)
        for statistics, model, values, classes in (
            (self.statistics_of_current, self._host.model, answer.margins[answer.n_before :], answer.classes),
            (self.statistics_of_candidate, self.hosted.model, margins, self.hosted.model.classes_),
        ):
            statistics.learned(model, request, len(labels), Learned(number, values, classes=classes))

    def save(self) -> None:
        """Store the candidate with its position. The candidate then no longer needs the records up to this position."""
        self.state = msgspec.structs.replace(self.state, position=self._position)
        self._versions.save_candidate(self.hosted.content(), self.state)
        self._saved_at = self._host.snapshot_record

    # ---- reading

    def shown(self) -> dict[str, Any]:
        """The state for the live page: the metrics of both models on the same examples."""
        return {
            "version": self.version, "share": self.state.share, "began": self.state.began,
            "learner": type(self.hosted.model).__name__, "position": self._position,
            "refused": self.refused, "skipped": self.skipped, "reason": self.reason,
            "current": self.statistics_of_current.comparison(), "candidate": self.statistics_of_candidate.comparison(),
        }  # fmt: skip


def _uniform_hash(task: Any) -> float:
    """A number in [0, 1) for a task, the same in every process. The numbers of many tasks are uniform."""
    # `person` must not change: with another value, the candidate would suddenly answer for other tasks.
    digest = hashlib.blake2b(repr(task).encode(), digest_size=8, person=b"canary").digest()
    return int.from_bytes(digest, "big") / 2**64
