"""The report of a run, for people."""

from tests.hosts.answers import answer_times
from tests.hosts.platform import WORKERS
from tests.hosts.running import HostsResult

_WIDTH = 52


def report(result: HostsResult) -> str:
    """Return the verdict, the scenarios, and what was measured."""
    plain = result.plain()
    verdict = "nothing is lost, doubled, wrong or stale" if result.is_exact else "NOT EXACT"
    counts = ", ".join(f"{name} {plain[name]}" for name in ("lost", "doubled", "wrong"))
    return "\n".join(
        [
            f"{verdict}: {result.rows} rows, {counts}, stale answers {len(result.stale)}",
            *([f"not drained: {result.unsettled}"] if result.unsettled else []),
            *(f"not on the cluster: {why}" for why in result.misplaced),
            *(f"  {example}" for example in plain["examples"]),  # type: ignore[attr-defined]
            "",
            *_scenarios(result),
            "",
            *_measurements(result),
        ]
    )


def _scenarios(result: HostsResult) -> list[str]:
    lines = [f"{'scenario':{_WIDTH}} s to a new row; answers p50, p95 ms by host"]
    for outcome in result.outcomes:
        answers = "; ".join(
            f"{host} {_pair(times)} ({outcome.unanswered[host]} unanswered)"
            for host, times in outcome.answer_ms.items()
        )
        lines += [f"{outcome.name:{_WIDTH}} {outcome.visible_s}; {answers}", f"  {outcome.note}"]
    whole = "; ".join(f"{host} {_pair(answer_times(result.answers, host))}" for host in WORKERS)
    return [*lines, f"{'all scenarios':{_WIDTH}} {whole}"]


def _pair(times: dict[str, float]) -> str:
    return f"{times['p50_ms']}, {times['p95_ms']}" if "p50_ms" in times else "no answer"


def _measurements(result: HostsResult) -> list[str]:
    found = result.measurements
    return [
        "connecting to the host of the stores, median ms",
        *(f"  {place:{_WIDTH - 2}} {ms}" for place, ms in found.connect_ms.items()),
        "an answer for one key whose primary is on ..., p50, p95 ms",
        *(f"  {place:{_WIDTH - 2}} {p50}, {p95}" for place, (p50, p95) in found.answer_ms.items()),
        "capacity, records a second and shard while a backlog is drained",
        *(
            f"  {one.job:{_WIDTH - 2}} {one.per_shard:.0f} ({one.shards} shards, {one.records} "
            f"records in {one.seconds:.1f} s)"
            for one in found.capacity
        ),
    ]
