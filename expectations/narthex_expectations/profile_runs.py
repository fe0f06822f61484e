"""One run of `narthex profile`: expectations are proposed, checked and printed."""

import sys
import time
from collections.abc import Sequence
from functools import partial

import attrs

from narthex._base import Json, render_instant
from narthex._ir import DatasetPlan
from narthex.cli.output import print_json_line, tell
from narthex.settings import load_settings
from narthex_expectations.audit_results import AuditResult
from narthex_expectations.frames import open_history
from narthex_expectations.gates import check_history
from narthex_expectations.profiles import ProposedExpectation, loosened, propose, source_of
from narthex_expectations.runs_by_name import RunByName
from narthex_expectations.sampled_rows import SampledRows, sampled_rows
from narthex_expectations.server_client import AuditedDataset, audited_datasets


@attrs.frozen(kw_only=True)
class Profile:
    """The expectations that are proposed for a dataset.

    Attributes:
        sample: The rows that they were proposed from.
        proposals: The expectations, all of which the history meets.
        result: The result of Great Expectations with them, on the whole history.
    """

    plan: DatasetPlan
    sample: SampledRows
    proposals: tuple[ProposedExpectation, ...]
    result: AuditResult

    def to_json(self) -> dict[str, Json]:
        """Render it for people and programs."""
        at = self.sample.as_of
        return {
            "sampled_rows": len(self.sample.rows),
            "sampled_share": self.sample.share,
            "sampled_as_of": None if at is None else render_instant(at),
            "reasons": [proposal.reason for proposal in self.proposals],
            "source": source_of(self.proposals),
            **self.result.to_json(),
        }


def profile(plan: DatasetPlan, history_path: str, *, now_us: int) -> Profile:
    """Propose expectations, and check them on the whole history.

    Those that it breaks get a lower `mostly`, or are left out.

    Args:
        plan: The dataset; its own expectations are not repeated, nor left out.
        history_path: A path or an `s3://` URL.
        now_us: The present: aggregates are of the newest row until then.

    Raises:
        FileNotFoundError: There is no history.
        StoreError: The store did not answer.
        TooManyStatesError: A single key has too many states.
    """
    sample = sampled_rows(plan, open_history(plan, history_path), as_of=None, now_us=now_us)
    proposals: Sequence[ProposedExpectation] = propose(plan, sample.rows)
    result = _checked(plan, proposals, history_path, now_us)
    if not result.success:
        proposals = loosened(proposals, result)
        result = _checked(plan, proposals, history_path, now_us)
    return Profile(plan=plan, sample=sample, proposals=tuple(proposals), result=result)


def _checked(
    plan: DatasetPlan, proposals: Sequence[ProposedExpectation], history_path: str, now_us: int
) -> AuditResult:
    expectations = tuple(proposal.expectation for proposal in proposals)
    return check_history(attrs.evolve(plan, expectations=expectations), history_path, now_us=now_us)


def run(names: Sequence[str], *, branch: str, as_json: bool) -> None:
    """Propose expectations as `narthex profile` does, and print them; exit with its status."""
    of_names = RunByName(command="profile", as_json=as_json)
    with of_names.looking_up():
        found = audited_datasets(load_settings(), names, branch=branch)
    print_one = _print_line if as_json else partial(_print, has_title=len(found) > 1)
    of_names.for_each(found, lambda one: print_one(_profile_now(one)))


def _profile_now(found: AuditedDataset) -> Profile:
    return profile(found.plan, found.history_path, now_us=time.time_ns() // 1000)


def _print_line(proposed: Profile) -> None:
    print_json_line(proposed.to_json())


def _print(proposed: Profile, *, has_title: bool) -> None:
    """Print what to paste on stdout, below the dataset's name if there are several."""
    if has_title and proposed.proposals:
        sys.stdout.write(f"# {proposed.plan.name}\n")
    sys.stdout.write(source_of(proposed.proposals))
    tell(_summary(proposed))


def _summary(proposed: Profile) -> str:
    rows, sampled = proposed.result.rows, len(proposed.sample.rows)
    if not proposed.proposals:
        return f"nothing to propose: {sampled} rows of {proposed.plan.name} were read"
    return (
        f"{len(proposed.proposals)} expectations, from {sampled} rows of {proposed.plan.name}; "
        f"{rows} rows meet them"
    )
