"""`python -m bench`: run the benchmarks of the whole platform, one after the other.

python -m bench [--home HOME]
"""

import argparse
import subprocess
import sys
from pathlib import Path

from bench.running import platform

BENCHES = ("bench.freshness", "bench.reads")


def main() -> int:
    """Run all benchmarks; exit with 1 if one fails."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--home", type=Path, help="the home of a running platform [a new one]")
    with platform(parser.parse_args().home) as settings:
        ended = [
            subprocess.run(
                [sys.executable, "-m", bench, "--home", str(settings.home)], check=False
            ).returncode
            for bench in BENCHES
        ]
    return max(ended)


if __name__ == "__main__":
    raise SystemExit(main())
