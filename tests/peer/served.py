# mypy: ignore-errors
"""Run the programs of a directory with a server; print the outcomes as JSON.

python -m narthex.compat.fennel served.py DIRECTORY URL TOKEN

Programs that only declare a dataset, `batched_*.py`, are committed many at a time. The others,
`alone_*.py`, have a branch each, and run with a client of the server. The process that started this
one drives each commit, whose number and branch are printed first, and then writes a line.
"""

import builtins
import importlib
import json
import sys
import warnings
from pathlib import Path

import fennel.client

from tests.peer.client_probes import plain

AT_ONCE = 40


class Unavailable(Exception):
    """A call that a client of a server does not have, or that a job would answer."""


class Declared(Exception):
    """The datasets of a program; the rest of it needs rows."""


class ServedClient(fennel.client.Client):
    """A client whose commits are driven by another process."""

    def commit(self, *args, preview=False, **given):
        """Commit, and wait until readers read it."""
        answer = super().commit(*args, preview=preview, **given, wait=False)
        if not preview:
            tell({"commit": answer.body["commit_id"], "branch": self.branch()})
            sys.stdin.readline()
        return answer

    def query_offline(self, *args, **given):
        """Refuse.

        Raises:
            Unavailable: Always.
        """
        raise Unavailable

    get_dataset_df = query_offline


class Collector:
    """A client that takes the datasets of a commit, and no more."""

    def commit(self, message, datasets):
        """Raise what is committed.

        Raises:
            Declared: Always.
        """
        raise Declared(datasets)


def declared(name):
    """Return the datasets of a program, or the error of its declarations."""
    try:
        for _ in importlib.import_module(name).run(Collector()):
            pass
    except Declared as found:
        return found.args[0], None
    except Exception as error:
        return [], said(error)
    return [], "the program makes no commit"


def commit_all(programs, client):
    """Commit programs at once; find those that are refused by halves."""
    datasets = {one._name: one for found in programs.values() for one in found}
    branch = f"from_{next(iter(programs))}_{len(programs)}"
    client.init_branch(branch)
    client.checkout(branch)
    try:
        client.commit("programs", [*datasets.values()])
    except Exception as error:
        if len(programs) == 1:
            tell({"name": next(iter(programs)), "stage": "commit", "said": said(error)})
            return
        names = [*programs]
        for half in (names[: len(names) // 2], names[len(names) // 2 :]):
            commit_all({name: programs[name] for name in half}, client)
        return
    for name in programs:
        tell({"name": name, "stage": "done"})


def outcome(name, client):
    """Run a program; return the stage that it reached, and what it yielded until then."""
    reached = ["import"]
    builtins.stage = reached.append
    shown = []
    try:
        module = importlib.import_module(name)
        client.init_branch(name)
        client.checkout(name)
        for one in module.run(client):
            shown.append(plain(one))
    except Unavailable:
        return {"stage": "done", "shown": shown}
    except Exception as error:
        return {"stage": reached[-1], "shown": shown, "said": said(error)}
    return {"stage": "done", "shown": shown}


def clean_up(client):
    """Delete the branches and secrets that programs make, for the next one."""
    for branch in {"b", "c"} & {*client.list_branches()}:
        client.delete_branch(branch)
    for name in client.list_secrets():
        client.delete_secret(name)


def said(error):
    """Return an error as text."""
    return f"{type(error).__name__}: {error}"[:400]


def tell(what):
    """Print a line of JSON."""
    out.write(json.dumps(what) + "\n")
    out.flush()


def main(place, url, token):
    """Run the programs of a directory."""
    builtins.stage = str
    # First, as each commit reads all jobs, and the batches make more than a thousand.
    for file in sorted(place.glob("alone_*.py")):
        client = ServedClient(url, token)
        tell({"name": file.stem} | outcome(file.stem, client))
        clean_up(client)
        client.close()
    batch = {}
    for file in sorted(place.glob("batched_*.py")):
        datasets, error = declared(file.stem)
        if error is not None:
            tell({"name": file.stem, "stage": "define", "said": error})
        else:
            batch[file.stem] = datasets
    names = [*batch]
    for start in range(0, len(names), AT_ONCE):
        client = ServedClient(url, token)
        commit_all({name: batch[name] for name in names[start : start + AT_ONCE]}, client)
        client.close()


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    sys.path.insert(0, sys.argv[1])
    out, sys.stdout = sys.stdout, sys.stderr
    main(Path(sys.argv[1]), *sys.argv[2:])
