"""The command `narthex diff`: the values of a dataset or a featureset on two branches."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Final

import typer

from narthex._base.records import Json
from narthex.cli.exit_codes import ExitCode
from narthex.cli.options import Token, Url, connect, instant
from narthex.cli.output import (
    AsJson,
    object_of,
    objects_of,
    print_json,
    print_line,
    print_table,
    tell,
)
from narthex.errors import ArgumentsUnfit

_SHOWN: Final = ("column", "types", "differ", "share", "null only", "mean", "greatest", "features")


def diff(  # noqa: PLR0913 (one parameter an option)
    first: Annotated[str, typer.Argument(help="A branch.")],
    second: Annotated[str, typer.Argument(help="The branch that is compared with it.")],
    *,
    dataset: Annotated[str, typer.Option(help="The dataset.")] = "",
    featureset: Annotated[str, typer.Option(help="A featureset instead.")] = "",
    sample: Annotated[
        float | None, typer.Option(help="The share of keys [as many as allowed].", min=0, max=1)
    ] = None,
    keys_file: Annotated[
        Path | None,
        typer.Option(
            help="The keys instead: a JSON object per line; of a featureset the given features, by "
            "their full names.",
            exists=True,
        ),
    ] = None,
    at: Annotated[
        str, typer.Option(metavar="RFC3339", help="As of when [the newest that both have].")
    ] = "",
    url: Url = "",
    token: Token = "",
    as_json: AsJson = False,
) -> None:
    """Compare a dataset or a featureset on two branches, and find the first input that differs.

    Values are read from histories, as of one instant. Features are asked for rows of logged queries
    of the first branch, else for keys of the datasets that they look up. The exit status is 0 if
    none differs, else 1.
    """
    if bool(dataset) is bool(featureset):
        raise typer.BadParameter("pass either --dataset or --featureset")
    found = connect(url, token).diff(
        dataset or featureset,
        first,
        second,
        share=sample,
        keys=None if keys_file is None else _keys(keys_file),
        at=instant(at),
    )
    if as_json:
        print_json(found)
    else:
        print_table(_SHOWN, [*_columns(found)], empty="they have no column in common")
        for line in _examples(found, first, second):
            print_line(line)
        tell(str(found["summary"]))
    keys = found["keys"]
    if isinstance(keys, dict) and keys["same"] != keys["compared"]:
        raise typer.Exit(ExitCode.FOUND)


def _keys(path: Path) -> list[Mapping[str, Json]]:
    keys: list[Mapping[str, Json]] = []
    for number, line in enumerate(path.read_text().splitlines(), start=1):
        if not line.strip():
            continue
        try:
            key = json.loads(line)
        except ValueError:
            key = None
        if not isinstance(key, dict):
            raise ArgumentsUnfit(
                f"line {number} of `{path}` is not a JSON object",
                hint='write one key per line, such as {"order": "o1"}',
            )
        keys.append(key)
    return keys


def _examples(found: Mapping[str, Json], first: str, second: str) -> Iterator[str]:
    """Yield examples, and why their values differ."""
    for one in objects_of(found.get("examples")):
        key = ", ".join(f"{name}={cell}" for name, cell in object_of(one["key"]).items())
        where = f"  first in {one['cause']}" if one.get("cause") else ""
        if "only_on" in one:
            yield f"{key}: only on {first if one['only_on'] == 'first' else second}{where}"
        else:
            values = f"{json.dumps(one['first'])} -> {json.dumps(one['second'])}"
            yield f"{key}: {one['column']} {values}{where}"


def _columns(found: Mapping[str, Json]) -> Iterator[tuple[str, ...]]:
    features = object_of(found.get("features"))
    for one in objects_of(found.get("columns")):
        of = [str(each) for each in one["types"]] if isinstance(one["types"], list) else []
        reading = features.get(str(one["column"]))
        yield (
            str(one["column"]),
            " -> ".join(dict.fromkeys(of)),
            "one side only" if one["differ"] is None else str(one["differ"]),
            _number(one["share"], "{:.2%}"),
            f"{one['null_on_first_only']} / {one['null_on_second_only']}",
            _number(one["mean_difference"], "{:.6g}"),
            _number(one["greatest_difference"], "{:.6g}"),
            ", ".join(map(str, reading)) if isinstance(reading, list) else "",
        )


def _number(value: Json, form: str) -> str:
    return form.format(value) if isinstance(value, int | float) else "-"
