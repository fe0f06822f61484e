"""Make every attack as the account of this process, and print as JSON what became of each."""

import json
import os
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from narthex._runtime.workers import WorkerPool  # noqa: E402
from narthex.errors import UserCodeError  # noqa: E402
from tests.security.attacks import ATTACKS, extractor, filled  # noqa: E402


def main() -> None:
    """Make each attack in turn; after each the worker must go on."""
    home = Path(sys.argv[1])
    said: dict[str, str] = {}
    with WorkerPool(1) as pool:
        missing = pool.warm().missing
        for attack in ATTACKS:
            try:
                extractor(pool, filled(attack, home))
                said[attack.name] = "it was possible"
            except UserCodeError as error:
                said[attack.name] = error.message
            assert extractor(pool, "return x") == [1, 2]
    with WorkerPool(1, is_reduced=True, without=("own_user",)) as pool:
        reduced = pool.warm().missing
        assert extractor(pool, "return x") == [1, 2]
    found = {"account": os.geteuid(), "missing": missing, "reduced": reduced, "said": said}
    sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    main()
