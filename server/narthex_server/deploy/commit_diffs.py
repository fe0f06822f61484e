"""The changes of commits to what readers read, computed before a person approves them."""

import functools
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias
from uuid import UUID

import structlog

from narthex._base import Json
from narthex_ledger import CommitKind, Ledger, LedgerError, ManifestView, ValueDiffView
from narthex_server.definitions.bundles import read_bundle
from narthex_server.deploy.feature_diffs import (
    FeatureManifest,
    LoggedRows,
    changed_featuresets,
    feature_question,
)
from narthex_server.deploy.value_diffs import answers_to, questions_between

log = structlog.get_logger()

OF_A_COMMIT_S: Final = 600.0
"""How long all diffs of a commit may take together."""

MOST_FEATURESETS: Final = 50
"""How many featuresets of a commit are compared."""


Asked: TypeAlias = Callable[[Sequence[Json]], Json]
"""Returns a question, for rows of given features that were logged."""


def _constant(question: Json) -> Asked:
    return lambda _: question


class CommitDiffs:
    """The changes of commits to the values that readers read: computed once each, and stored."""

    def __init__(
        self, *, ledger: Ledger, history_dir: str, logged: LoggedRows = lambda _: ()
    ) -> None:
        """Prepare; nothing runs before the first call of `are_known`.

        Args:
            ledger: The ledger.
            history_dir: The directory of histories.
            logged: Returns rows to ask features for; without any, keys of datasets are asked.
        """
        self._ledger = ledger
        self._logged = logged
        self._history_dir = history_dir
        self._known: set[UUID] = set()
        self._running: UUID | None = None
        self._lock = threading.Lock()

    def are_known(self, commit_id: UUID) -> bool:
        """Return whether all diffs of a commit are stored; if not, begin to compute them.

        One commit is compared at a time. A diff that fails is stored with its error, and not
        computed again: it is for information only.
        """
        if commit_id in self._known:
            return True
        if not self._begin(commit_id):
            return False
        missing: dict[str, Asked] = {}
        try:
            missing = self._missing(commit_id)
        finally:
            if not missing:
                self._end()
        if not missing:
            self._known.add(commit_id)
            return True
        threading.Thread(
            target=self._compute, args=(commit_id, missing), name="value-diffs", daemon=True
        ).start()
        return False

    def _begin(self, commit_id: UUID) -> bool:
        with self._lock:
            if self._running is not None:
                return False
            self._running = commit_id
            return True

    def _end(self) -> None:
        with self._lock:
            self._running = None

    def _missing(self, commit_id: UUID) -> dict[str, Asked]:
        view = self._ledger.commits.get(commit_id)
        if view.kind != CommitKind.DEPLOY or view.manifest_id is None:
            return {}
        serving = self._ledger.manifests.serving(view.branch_id)
        if serving is None:
            return {}
        new = self._ledger.manifests.get(view.manifest_id)
        questions = questions_between(new, serving.manifest, history_dir=self._history_dir)
        sides = (
            self._features(serving.commit_id, serving.manifest),
            self._features(commit_id, new),
        )
        featuresets = [*changed_featuresets(*sides)][:MOST_FEATURESETS]
        asked: dict[str, Asked] = {name: _constant(one) for name, one in questions.items()}
        asked |= {name: functools.partial(self._of_features, name, sides) for name in featuresets}
        known = {diff.dataset for diff in self._ledger.value_diffs.of_commit(commit_id)}
        return {name: one for name, one in asked.items() if name not in known}

    def _of_features(
        self, name: str, sides: Sequence[FeatureManifest], rows: Sequence[Json]
    ) -> Json:
        choice: dict[str, Json] = {"rows": [*rows] or None, "is_logged": True}
        return feature_question(name, sides, history_dir=self._history_dir, choice=choice)

    def _features(self, commit_id: UUID, manifest: ManifestView) -> FeatureManifest:
        bundle = read_bundle(self._ledger.bundles.of_commit(commit_id))
        return FeatureManifest(
            definitions=bundle.definitions, plans=manifest.plans, bindings=manifest.bindings
        )

    def _compute(self, commit_id: UUID, questions: Mapping[str, Asked]) -> None:
        try:
            view = self._ledger.commits.get(commit_id)
            rows = self._logged(self._ledger.branches.get_by_id(view.branch_id).name)
            asked = [question(rows) for question in questions.values()]
            found, ending = answers_to(asked, within_s=OF_A_COMMIT_S)
            by_name = {str(one["dataset"]): one for one in found}
            for name in questions:
                answer = by_name.get(name, {"error": ending})
                self._ledger.value_diffs.record(
                    ValueDiffView(
                        commit_id=commit_id,
                        dataset=name,
                        result=answer.get("result", {"error": answer.get("error")}),
                        examples=answer.get("examples"),
                    )
                )
        except (LedgerError, OSError) as error:
            log.warning("value_diffs_failed", commit_id=str(commit_id), error=str(error))
        finally:
            self._end()
