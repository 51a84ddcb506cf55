"""`ModelVersions`: versions, candidate, promotion and rollback of a served model.

Everything that changes the model runs in the writer thread, between two commits.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, TypeVar

from budgetron.distributed import InShards
from budgetron.durable import Learned, ModelHost, NotCopied
from budgetron.durable.hosted_model import hosted_model_from
from budgetron.durable.versions import CandidateState, Event, NoVersion, Versions, automatic_name
from budgetron.errors import BudgetronError
from budgetron.service.logs import log
from budgetron.service.model.candidate import Candidate

MaybeCandidate = TypeVar("MaybeCandidate", Candidate, None)
Listener = Callable[[Sequence[Any]], None]


class ModelVersions:
    """The versions of one model.

    `replacing` resets the statistics while the model is replaced. `listen` registers a function that the writer calls
    after each commit. A function is registered only while there is a candidate, because the function delays the next
    commit.
    """

    def __init__(
        self,
        name: str,
        host: ModelHost,
        replacing: Callable[[], AbstractContextManager[None]],
        listen: Callable[[Listener | None], None] | None = None,
    ) -> None:
        self._name, self._any_host, self._replacing, self._listen = name, host, replacing, listen
        self._stored: Versions | None = None
        self.candidate: Candidate | None = None

    def open(self) -> None:
        """Load the candidate of the last run, if any, and let it learn the records that it missed.

        If the process ended during a promotion, `state.json` is corrected first. Learning may take long.
        """
        if self._any_host.in_shards:
            return
        versions, host = self.versions, self._host
        state = versions.state
        if state.promoting is not None:  # the process ended during a promotion
            # A higher position shows that the model was replaced. Then only `state.json` still has to record this.
            if host.position > state.promoting and state.candidate is not None:
                saved = automatic_name(state.promoting)
                versions.replaced("promote", state.candidate.version, saved, host.position, "")
                versions.end_candidate()
            else:
                versions.set_state(promoting=None)
        candidate, content = versions.state.candidate, versions.read_candidate()
        if candidate is not None and content is not None:
            self._set_candidate(Candidate(content, candidate, host, versions)).follow()

    @property
    def _host(self) -> ModelHost:
        if self._any_host.in_shards:
            raise InShards(
                "versions: a model in shards has neither versions nor a candidate, because it is not in one file. To "
                "keep its state, stop the service and copy its directory."
            )
        return self._any_host

    @property
    def versions(self) -> Versions:
        if self._stored is None:
            self._stored = Versions(self._host.directory)
        return self._stored

    def reload(self) -> None:
        """Read the versions again, because a standby that takes over has fetched the versions of the former owner."""
        self._stored = None

    # ---- versions

    def save(self, name: str, content: bytes) -> None:
        """Store a model file as a version, or the model in use if there is no content."""
        if content:
            hosted_model_from(content)  # raises an error if it is not a valid model file
        self.versions.save(name, content or self._host.content())

    def activate(self, version: str, who: str, action: str = "activate") -> int:
        """Replace the model by a version. Returns the number of the record that replaced it.

        The replaced model is saved, so that a rollback can return to it.
        """
        content, last = self.versions.read(version), self._last_replacement()
        # After a promotion, the model in use has learned more than the file of its version. So activating the version
        # is then a change, not a retry.
        if last is not None and last.version == version and last.action != "promote":
            self._host.confirm()  # a retry: the first attempt may have failed here
            return last.position
        return self._replace(action, version, content, who)

    def rollback(self, who: str) -> int:
        """Return to the model before the last activation, promotion or rollback."""
        previous = self.versions.state.previous
        if previous is None:
            raise NoVersion("rollback: the model has not been replaced yet, so there is nothing to go back to. "
                            "Save versions with PUT /v1/versions/NAME, and activate one with POST.")  # fmt: skip
        return self.activate(previous, who, "rollback")

    def _last_replacement(self) -> Event | None:
        """Return the last replacement if nothing was committed since: the same request is then a retry. Else None."""
        events = self.versions.state.events
        return events[-1] if events and events[-1].position == self._host.position else None

    def _replace(self, action: str, version: str, content: bytes, who: str) -> int:
        host, versions = self._host, self.versions
        saved = versions.save_replaced(host.content(), host.position)
        if self.candidate is not None:
            self.candidate.follow()
        try:
            host.restore(content, self._replacing())
        except NotCopied:  # the model was replaced, but its copy could not be written before the answer
            self._record(action, version, saved, who)
            raise
        self._record(action, version, saved, who)
        return host.position

    def _record(self, action: str, version: str, saved: str, who: str) -> None:
        """Record that the model was replaced by `version`. The old model is saved as the version `saved`."""
        position = self._host.position
        self.versions.replaced(action, version, saved, position, who)
        self.model_replaced()
        log("version", model=self._name, action=action, version=version, replaced=saved, position=position)

    def model_replaced(self) -> None:
        """Let the candidate skip the record that replaced the model in use, because it has no labels."""
        if self.candidate is not None:
            self.candidate.continue_after(self._host.position)

    # ---- the candidate

    def begin(self, version: str, share: float) -> Candidate:
        """Run a version beside the model in use, in place of the current candidate if there is one.

        If the version is the candidate already, only change the share of tasks that it answers.
        """
        host = self._host
        if self.candidate is not None and self.candidate.version == version:
            self.candidate.set_share(share)
            return self.candidate
        content = self.versions.read(version)
        state = CandidateState(version, share, host.position, time.time())
        candidate = Candidate(content, state, host, self.versions)
        candidate.save()
        self._set_candidate(candidate)
        log("candidate", model=self._name, version=version, share=share, position=host.position)
        return candidate

    def end(self) -> None:
        self._current_candidate()
        self._end_candidate()

    def promote(self, who: str) -> int:
        """Make the candidate, with everything it has learned, the model in use."""
        last = self._last_replacement()
        if self.candidate is None and last is not None and last.action == "promote":
            self._host.confirm()  # a retry: the first attempt may have failed here
            return last.position
        candidate = self._current_candidate()
        candidate.follow()
        self.versions.set_state(promoting=self._host.position)
        try:
            position = self._replace("promote", candidate.version, candidate.hosted.content(), who)
        except NotCopied:  # the model was replaced nevertheless
            self._end_candidate()
            raise
        self._end_candidate()
        return position

    def _end_candidate(self) -> None:
        self._set_candidate(None)
        self.versions.end_candidate()

    def _set_candidate(self, candidate: MaybeCandidate) -> MaybeCandidate:
        self.candidate = candidate
        if self._listen is not None:
            self._listen(None if candidate is None else self.learned)
        return candidate

    def _current_candidate(self) -> Candidate:
        self._host  # noqa: B018 (raises for a model in shards)
        if self.candidate is None:
            raise NoVersion('candidate: there is none. Start one with PUT /v1/candidate and {"version": NAME}.')
        return self.candidate

    def learned(self, answers: Sequence[Any]) -> None:
        """Let the candidate learn the latest commit. Its errors do not affect the model in use."""
        candidate = self.candidate
        if candidate is None:
            return
        try:
            new = [answer for answer in answers if isinstance(answer, Learned) and not answer.repeated]
            candidate.follow({answer.position: answer for answer in new})
        except BudgetronError as error:
            candidate.reason = str(error)
        except Exception as error:
            candidate.reason = repr(error)
            log("fault", model=self._name, error=f"candidate: {error!r}"[:1000])

    def task_forgotten(self) -> None:
        """Let the candidate forget the task that the host has just forgotten, in memory and in the stored candidate."""
        if self.candidate is not None:
            self.candidate.follow()
            self.candidate.save()

    def close(self) -> None:
        if self.candidate is not None:
            try:
                self.candidate.follow()
                self.candidate.save()
            except BudgetronError as error:  # it will learn the records again at the next start
                log("warning", model=self._name, message=f"The candidate was not saved: {error}")

    # ---- reading

    def shown(self) -> dict[str, Any] | None:
        return None if self.candidate is None else self.candidate.shown()
