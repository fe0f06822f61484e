"""Draw the CSV files of the benches; runs in the environment of `bench.peers`.

python -m bench.plots RAW DIRECTORY     writes an SVG for each file that exists, and prints its name
"""

import csv
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import matplotlib as mpl
from matplotlib import pyplot as plt

Rows = Sequence[Mapping[str, str]]

mpl.use("svg")
mpl.rcParams.update({"svg.hashsalt": "narthex", "svg.fonttype": "none", "figure.figsize": (7, 3.5)})


def _distribution(title: str, by: str | None, target_ms: float) -> Callable[[Rows], None]:
    """Draw the share of rows that were visible, by milliseconds."""

    def draw(rows: Rows) -> None:
        for name in sorted({row[by] for row in rows}) if by else [""]:
            some = [row for row in rows if by is None or row[by] == name]
            seen = sorted(float(row["freshness_ms"]) for row in some if row["freshness_ms"])
            shares = [(at + 1) / len(some) for at in range(len(seen))]
            plt.step([max(0.1, ms) for ms in seen], shares, where="post", label=name or None)
        plt.axvline(target_ms, linestyle=":", color="gray", label="target of p99")
        plt.xscale("log")
        plt.xlabel("ms from accepted to visible")
        plt.ylabel("share of rows")
        plt.title(title)
        plt.legend()

    return draw


def _throughput(rows: Rows) -> None:
    names = [row["contender"] for row in rows]
    speeds = [float(row["rows"]) / float(row["cpu_s"]) for row in rows]
    bars = plt.barh(names, speeds)
    plt.bar_label(bars, labels=[f"{speed:,.0f}" for speed in speeds], padding=3)
    plt.xscale("log")
    plt.xlabel("rows per CPU-second")
    plt.gca().invert_yaxis()
    plt.title("Four aggregates over four windows")


def _memory(rows: Rows) -> None:
    for role in sorted({row["role"] for row in rows}):
        some = [row for row in rows if row["role"] == role]
        plt.plot(
            [float(row["at_s"]) / 60 for row in some],
            [float(row["own_mib"]) for row in some],
            label=role,
        )
    plt.xlabel("minutes of constant load")
    plt.ylabel("MiB")
    plt.title("Memory by process, pages of files left out")
    plt.legend(fontsize=5, ncols=2)


def _serving(rows: Rows) -> None:
    closed = [row for row in rows if row["loop"] == "closed" and row["clients"] == "1"]
    points = sorted({(int(row["keys"]), int(row["features"])) for row in closed})
    servers = sorted({row["server"] for row in closed}, reverse=True)
    for number, server in enumerate(servers):
        found = {
            (int(row["keys"]), int(row["features"])): float(row["p99_ms"])
            for row in closed
            if row["server"] == server
        }
        places = [at + 0.27 * number for at in range(len(points))]
        bars = plt.bar(places, [found[point] for point in points], width=0.25, label=server)
        plt.bar_label(bars, labels=[f"{found[point]:.3g}" for point in points], fontsize=6)
    plt.xticks(range(len(points)), [f"{keys} x {features}" for keys, features in points])
    plt.yscale("log")
    plt.xlabel("keys x features of a query, one client")
    plt.ylabel("p99 in ms")
    plt.title("Answers of features")
    plt.legend()


def _disturbed(rows: Rows) -> None:
    for during in dict.fromkeys(row["during"] for row in rows):
        took = sorted(
            float(row["took_ms"])
            for row in rows
            if row["during"] == during and row["status"] == "200"
        )
        shares = [1 - at / len(took) for at in range(len(took))]
        plt.step(took, shares, where="post", label=f"{during} ({len(took)})")
    plt.xscale("log")
    plt.yscale("log")
    plt.xlabel("ms from when a query was due to its answer")
    plt.ylabel("share of answers that took longer")
    plt.title("Answers while something else happens")
    plt.legend(fontsize=5)


FIGURES: Mapping[str, Callable[[Rows], None]] = {
    "freshness": _distribution("Freshness, 500 rows/s, expressions", "by", 250.0),
    "jobs_plain": _distribution("Freshness, 50 live jobs, a row a second each", None, 500.0),
    "jobs_code": _distribution("Freshness, Python in 5 pipelines, 500 rows/s", None, 1000.0),
    "throughput": _throughput,
    "serving": _serving,
    "disturbed": _disturbed,
    "soak": _memory,
}


def main() -> None:
    """Draw the files that exist; print their names, one per line."""
    raw, directory = Path(sys.argv[1]), Path(sys.argv[2])
    for name, draw in FIGURES.items():
        path = raw / f"{name}.csv"
        if not path.exists():
            continue
        with path.open(newline="") as file:
            rows = list(csv.DictReader(file))
        plt.figure()
        draw(rows)
        plt.tight_layout()
        plt.savefig(directory / f"{name}.svg", metadata={"Date": None})
        plt.close()
        print(name)


if __name__ == "__main__":
    main()
