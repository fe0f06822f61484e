"""`make fuzz-spark`: compare Kafka, Spark, stages and indexes with the reference.

    python -m tests.differential --n 200 --seed 0

Each seed generates the same hundred projects; those with facts are run. Each project runs live with
random batches and restarts, and as a backfill; one in three also half and half. Rows of some
datasets enter through topics and webhooks, and sinks write some to topics. A failing project is
shrunk and written as a program. Progress goes to stderr, with the seed to continue from, and at
the end the number of projects with each kind of job, and the seconds of a thousand projects. With
`--json`, one line of JSON goes to stdout. Exits with 1 if a log, an index, a target or a quarantine
differs, or if too few projects have a kind of job, of 200 projects or more.
"""

import argparse
import contextlib
import itertools
import json
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import attrs
import psutil
import structlog

from narthex_reference.engines import REFERENCE
from narthex_reference.generate import Project, render_program
from tests.differential.drawing import Jobs, from_seeds, kinds_with_jobs
from tests.differential.job_kinds import count_kinds, rare_kinds, table_of
from tests.differential.platform import IndexServers, platform
from tests.differential.searching import Difference, Searcher, ways_of
from tests.differential.several import run_several, united
from tests.spark_cluster import CLUSTER, LOCAL

Drawn = tuple[int, int, Project]
"""Seed, place among the projects of the seed, project."""


@attrs.define(kw_only=True)
class RunReport:
    """The report of a run."""

    asked: argparse.Namespace
    began: float = attrs.field(factory=time.monotonic)
    projects: int = 0
    cpu_s: float = 0.0
    last: int = 0
    steps: Counter[str] = attrs.field(factory=Counter)
    kinds: Counter[str] = attrs.field(factory=Counter)
    differ: list[str] = attrs.field(factory=list)

    @property
    def took(self) -> float:
        """Seconds since it began."""
        return time.monotonic() - self.began

    @property
    def rare(self) -> tuple[str, ...]:
        """The kinds of jobs that too few projects have; only a run of all projects is judged."""
        if Jobs(self.asked.jobs) is not Jobs.ANY:
            return ()
        return rare_kinds(self.kinds, projects=self.projects)

    def end_lines(self) -> str:
        """Render the kinds of jobs, and the cost."""
        each = self.took / max(self.projects, 1)
        cost = f"{each:.2f} s and {self.cpu_s / max(self.projects, 1):.2f} CPU seconds a project"
        lines = [table_of(self.kinds, projects=self.projects)]
        lines += [f"too few projects have: {kind}" for kind in self.rare]
        return "\n".join([*lines, f"{cost}; a thousand take {each * 1000 / 60:.0f} minutes", ""])

    def line(self, searcher: Searcher) -> str:
        """Say how far it is, and where the time went."""
        spent = ", ".join(f"{what} {s:.0f}" for what, s in searcher.clock.by_length()[:7])
        return (
            f"seed {self.last}: {self.projects} of {self.asked.n} projects, {len(self.differ)} "
            f"differ, {self.took:.0f} s ({spent})\n"
        )

    def plain(self, searcher: Searcher) -> dict[str, object]:
        """Return all of it as JSON."""
        return {
            "projects": self.projects,
            "seeds": [self.asked.seed, self.last],
            "differ": self.differ,
            "seconds": round(self.took, 1),
            "spent": {what: round(s, 1) for what, s in searcher.clock.by_length()},
            "counts": dict(searcher.counts.most_common()),
            "steps": dict(self.steps.most_common()),
            "kinds": dict(self.kinds.most_common()),
            "rare": list(self.rare),
            "cpu_seconds": round(self.cpu_s, 1),
        }


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command."""
    given = sys.argv[1:] if arguments is None else arguments
    asked = _parser().parse_args(given)
    if asked.processes > 1:
        return _run_several(asked, given)
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))
    told = RunReport(asked=asked, last=asked.seed)
    found = itertools.islice(from_seeds(asked.seed, jobs=Jobs(asked.jobs)), asked.n)
    indexes, on_cluster = IndexServers(asked.index_store), asked.master == CLUSTER
    with platform(asked.kafka, indexes=indexes, on_cluster=on_cluster) as (session, settings):
        searcher = Searcher(session=session, settings=settings, seed=asked.seed)
        for batch in _batches(found, asked.at_once, searcher):
            _examine(batch, searcher, told)
            told.cpu_s = _cpu_s()
            sys.stderr.write(told.line(searcher))
            if asked.minutes and told.took > asked.minutes * 60:
                break
    sys.stderr.write(told.end_lines())
    if asked.json:
        sys.stdout.write(json.dumps(told.plain(searcher)) + "\n")
    return 1 if told.differ or told.rare else 0


def _run_several(asked: argparse.Namespace, given: Sequence[str]) -> int:
    """Run several processes; print a report of all of them."""
    reports = run_several(given, projects=asked.n, processes=asked.processes, seed=asked.seed)
    whole = united(reports)
    told = RunReport(
        asked=asked,
        began=time.monotonic() - whole["seconds"],
        projects=whole["projects"],
        cpu_s=whole["cpu_seconds"],
        kinds=Counter(whole["kinds"]),
        differ=whole["differ"],
    )
    sys.stderr.write(f"{told.projects} projects, {len(told.differ)} differ\n{told.end_lines()}")
    if asked.json:
        sys.stdout.write(json.dumps(whole | {"rare": list(told.rare)}) + "\n")
    return 1 if told.differ or told.rare else 0


def _cpu_s() -> float:
    """Return the CPU seconds of this process and of those below it: the broker, Spark, workers."""
    this = psutil.Process()
    total = 0.0
    for process in (this, *this.children(recursive=True)):
        with contextlib.suppress(psutil.NoSuchProcess):
            used = process.cpu_times()
            # Those that have ended are counted with the process that waited for them.
            total += used.user + used.system + used.children_user + used.children_system
    return total


def _batches(found: Iterator[Drawn], at_once: int, searcher: Searcher) -> Iterator[list[Drawn]]:
    while True:
        with searcher.clock.doing("draw"):
            batch = list(itertools.islice(found, at_once))
        if not batch:
            return
        yield batch


def _examine(batch: Sequence[Drawn], searcher: Searcher, told: RunReport) -> None:
    projects = [project for _, _, project in batch]
    failed = searcher.judged([(one, ways_of(at)) for at, one in enumerate(projects)])
    told.projects += len(batch)
    told.last = batch[-1][0]
    for project in projects:
        told.steps += kinds_with_jobs(project)
    told.kinds += count_kinds(project.definitions for project in projects)
    for difference in failed:
        seed, place, _ = batch[difference.at]
        name = f"{seed}_{place}_{difference.way}"
        sys.stderr.write(f"seed {seed}, project {place}, {difference.way}: {difference.wrong}\n")
        told.differ.append(name)
        if len(told.differ) <= told.asked.smaller:
            _write(searcher.made_smaller(difference), name, told.asked.programs)


def _write(difference: Difference, name: str, directory: Path) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    file = directory / f"differs_{name}.py"
    text = render_program(
        difference.project,
        judge=REFERENCE,
        engine=difference.way,
        wrong=difference.wrong,
        file=str(file),
        compared_by="tests.differential.program",
    )
    file.write_text(text, encoding="utf-8")
    sys.stderr.write(f"made smaller: {difference.wrong}\nwritten to {file}\n")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="make fuzz-spark", description=__doc__)
    parser.add_argument("--n", type=int, default=100, help="the number of projects")
    parser.add_argument(
        "--seed", type=int, default=0, help="the first seed; to continue, the last one printed"
    )
    parser.add_argument("--at-once", type=int, default=40, help="the number of projects per round")
    parser.add_argument(
        "--processes",
        type=int,
        default=1,
        help="run so many processes beside each other, each with a broker and Spark of its own",
    )
    parser.add_argument("--minutes", type=float, help="start no round after this many minutes")
    parser.add_argument("--smaller", type=int, default=3, help="the number of failures to shrink")
    parser.add_argument("--programs", type=Path, default=Path("build/fuzz-spark"))
    parser.add_argument(
        "--master",
        choices=[LOCAL, CLUSTER],
        default=LOCAL,
        help="run Spark in this process, or as a standalone cluster of a master and two workers",
    )
    parser.add_argument("--kafka", help="the bootstrap servers of a running broker [a new one]")
    parser.add_argument(
        "--index-store",
        choices=[one.value for one in IndexServers],
        default=IndexServers.NONE.value,
        help="have indexes in LMDB, or on one or three Redis servers that are started",
    )
    parser.add_argument("--json", action="store_true", help="print one line of JSON on stdout")
    parser.add_argument(
        "--jobs",
        choices=[one.value for one in Jobs],
        default=Jobs.ANY.value,
        help="run all projects, only those with Spark jobs, or only the others",
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
