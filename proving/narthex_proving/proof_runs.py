"""One run of `narthex prove`: the proof, what is printed of it, and the exit status."""

import sys
from uuid import UUID

import typer

from narthex._runtime.workers import WorkerPool
from narthex.cli.exit_codes import ExitCode
from narthex.cli.output import print_json, tell
from narthex.settings import NotInstalledError, load_settings
from narthex_ledger import LedgerError
from narthex_proving.consistent_cut import NotThereError
from narthex_proving.deployed import NothingServesError, deployed
from narthex_proving.findings import Proof
from narthex_proving.proof import ProofRequest, UnknownDatasetError, prove
from narthex_stores import StoreError

EQUAL, DIFFERENT, NOT_COMPARED = ExitCode.DONE, ExitCode.FOUND, ExitCode.OUR_FAULT
_WORKERS = 2


def run(asked: ProofRequest, *, branch: str, commit: str, as_json: bool) -> None:
    """Prove, print the proof, and exit with its status unless all is equal.

    Args:
        asked: The scope of the proof.
        branch: The branch whose serving commit is checked.
        commit: The id of another commit; empty for the one that serves.
        as_json: Whether the proof is printed as JSON.
    """
    try:
        platform = deployed(
            load_settings(), branch=branch, commit_id=UUID(commit) if commit else None
        )
        with WorkerPool(size=_WORKERS) as pool:
            proof = prove(platform, asked, calls=pool, tell=tell)
    except (
        NotInstalledError,
        NothingServesError,
        NotThereError,
        UnknownDatasetError,
        LedgerError,
        StoreError,
        ValueError,
    ) as error:
        tell(f"narthex prove: {error}")
        raise typer.Exit(NOT_COMPARED) from None
    if as_json:
        print_json(proof.plain())
    else:
        sys.stdout.write(told(proof))
    raise typer.Exit(status_of(proof))


def status_of(proof: Proof) -> ExitCode:
    """Return the exit status; a difference outweighs a missing comparison."""
    if not proof.is_equal:
        return DIFFERENT
    return NOT_COMPARED if proof.unproved else EQUAL


def told(proof: Proof) -> str:
    """Render a proof for people."""
    lines = [difference.told() for difference in proof.differences]
    lines += [f"{count} more differences in {store}" for store, count in proof.more.items()]
    lines += [f"not compared: {one.store} of `{one.dataset}`: {one.why}" for one in proof.unproved]
    lines += [f"{count:>8} compared: {store}" for store, count in proof.compared.items()]
    if proof.changed_answers:
        lines.append(f"{proof.changed_answers:>8} answers would differ now: rows arrived later")
    lines.append("equal" if proof.is_equal else "DIFFERENT")
    return "\n".join(lines) + "\n"
