"""The rows of persons are erased by the page's commands, from every store, answer and target."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import pandas as pd
import psycopg
import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from narthex.client import Client
from narthex_stores import LogReader, Needle, platform_broker, search_files, search_topic
from tests.acceptance import members
from tests.acceptance.conftest import Market
from tests.acceptance.platform import COMMIT_S, STREAM_S, Platform, wait_until
from tests.guides.pages import DOCS, blocks
from tests.guides.shell import Shell, environment
from tests.mounted_secrets import grant

pytestmark = [pytest.mark.stack, pytest.mark.acceptance]

BRANCH = "members"
ERASED, ALSO_ERASED, KEPT = "hedwig", "klara-erased-7031", "konrad-kept-2290"
"""The person whom the page erases by a key, one in its file `persons.csv`, and one who stays."""

PAGE: Final = DOCS / "guide" / "erasure.md"
AS_OF = "2026-05-04T12:00:00Z"
ERASURE_S = 420.0
TOPIC_RULE = f"""
[[topics]]
name = "{members.TOPIC}"
branches = ["*"]
write = true
"""


def row(person: str, club: str, day: int = 1) -> dict[str, str]:
    return {"person": person, "club": club, "since": f"2026-05-0{day}T08:00:00Z"}


def answers(client: Client) -> tuple[int, list[str], str, str]:
    """Ask for the chess club, and for the club of each person."""
    club, _ = client.query_columns(
        ["Club.club"], ["Club.members", "Club.names"], {"Club.club": ["chess"]}, as_of=AS_OF
    )
    people, _ = client.query_columns(
        ["Member.person"], ["Member.club"], {"Member.person": [ERASED, KEPT]}, as_of=AS_OF
    )
    names = club["Club.names"][0]
    erased, kept = people["Member.club"]
    return int(club["Club.members"][0] or 0), list(names or []), str(erased), str(kept)


def prepare_targets(platform: Platform, client: Client, dsn: str) -> None:
    """Make a compacted topic, and let sinks write to it and to a database of somebody else."""
    address = urlsplit(dsn)
    host = f"{address.hostname}:{address.port}"
    policy = platform.settings.policy_file
    policy.write_text(policy.read_text() + TOPIC_RULE)
    grant(policy, host, secrets=["warehouse-user", "warehouse-password"])
    client.add_secret("warehouse-user", str(address.username))
    client.add_secret("warehouse-password", str(address.password))
    client.set_connection(
        members.WAREHOUSE,
        "Postgres",
        {
            "host": str(address.hostname),
            "port": int(address.port or 0),
            "db_name": address.path.strip("/"),
        },
        secrets={"username": "warehouse-user", "password": "warehouse-password"},
    )
    compacted = NewTopic(members.TOPIC, 1, 1, config={"cleanup.policy": "compact"})
    admin = AdminClient({**platform_broker(platform.settings).config()})
    admin.create_topics([compacted])[members.TOPIC].result(30)


def in_topic(platform: Platform) -> list[str]:
    """The persons in the compacted topic whose newest record has a row."""
    found: dict[str, bytes | None] = {}
    with LogReader(platform_broker(platform.settings)) as reader:
        reader.assign(reader.first_offsets([members.TOPIC]))
        while records := reader.poll(max_records=1_000, timeout_s=1.0):
            found.update({json.loads(one.key or b"")["person"]: one.value for one in records})
    return sorted(person for person, value in found.items() if value is not None)


def in_targets(platform: Platform, dsn: str) -> tuple[list[str], list[str]]:
    """The persons in the topic, and those in the table."""
    with psycopg.connect(dsn.replace("+psycopg2", "")) as connection:
        if connection.execute("SELECT to_regclass('readers')").fetchone() == (None,):
            return in_topic(platform), []
        found = connection.execute("SELECT person FROM readers ORDER BY person").fetchall()
    return in_topic(platform), [str(person) for (person,) in found]


def everything(platform: Platform) -> list[str]:
    """Search all topics and all files of the installation; name where the persons are found."""
    needles = [Needle(cells={"person": person}) for person in (ERASED, ALSO_ERASED)]
    found: list[str] = []
    for topic in platform.topics():
        # The topic of the sink has older records until it is compacted.
        if not topic.startswith("__") and topic != members.TOPIC:
            found += search_topic(platform_broker(platform.settings), topic, needles).found
    settings = platform.settings
    for root in (
        settings.index_dir,
        Path(settings.history_dir),
        settings.checkpoint_dir,
        Path(settings.snapshot_dir or settings.index_dir),
        settings.offline_dir,
        settings.training_sets_dir,
    ):
        found += search_files(root, needles).found
    return found


def certified(client: Client, erasure_id: str) -> dict[str, Any] | None:
    found = client.erasure(erasure_id)
    return dict(found) if found["state"] == "certified" else None


def offline(client: Client) -> list[str]:
    """Ask offline for the club of each person."""
    spine = pd.DataFrame(
        {"Member.person": [ERASED, KEPT], "at": pd.to_datetime([AS_OF, AS_OF], utc=True)}
    )
    found = client.query_offline(["Member.person"], ["Member.club"], "at", spine)
    return [str(club) for club in found["Member.club"]]


def looked_up(client: Client) -> list[bool]:
    keys = pd.DataFrame({"person": [ERASED, KEPT]})
    _, is_found = client.lookup(members.Members, keys, timestamps=pd.to_datetime([AS_OF] * 2))
    return [bool(one) for one in is_found]


def joined(platform: Platform, dsn: str) -> Client:
    """Commit the members on a branch of their own, and let both become members."""
    settings = platform.settings
    client = Client(settings.server_url, settings.token)
    client.init_branch(BRANCH)
    prepare_targets(platform, client, dsn)
    client.commit("members", members.DATASETS, members.FEATURESETS, timeout_s=COMMIT_S)
    for one in (row(ERASED, "chess"), row(ALSO_ERASED, "chess", 2), row(KEPT, "chess", 3)):
        client.log("shop", "members", pd.DataFrame([one]))
    before = (3, [KEPT, ALSO_ERASED, ERASED], "chess", "chess")
    wait_until(
        lambda: answers(client) == before,
        within_s=STREAM_S,
        what="all are members",
        so_far=lambda: answers(client),
    )
    wait_until(
        lambda: offline(client) == ["chess", "chess"],
        within_s=STREAM_S,
        what="they are members in the history",
        so_far=lambda: offline(client),
    )
    assert looked_up(client) == [True, True]
    every = [ERASED, ALSO_ERASED, KEPT]
    wait_until(
        lambda: in_targets(platform, dsn) == (every, every),
        within_s=STREAM_S,
        what="sinks have written all",
        so_far=lambda: in_targets(platform, dsn),
    )
    client.query(
        inputs=["Member.person"],
        outputs=["Member.club"],
        input_dataframe=pd.DataFrame({"Member.person": [ERASED]}),
        log=True,
        workflow="erasure",
    )
    return client


def check_certificate(client: Client, found: dict[str, Any], person: str) -> list[int]:
    """The certificate is the installation's, about this key and no other, and names nobody.

    Return the number of rows that each sink has deleted.
    """
    certificate, signature = found["certificate"], str(found["signature"])
    assert ERASED not in str(certificate)
    assert ALSO_ERASED not in str(certificate)
    assert certificate["found"] == 0
    assert certificate["destroyed"]
    listed = [(one["target"].partition(":")[0], one["is_erased"]) for one in certificate["sinks"]]
    assert listed == [("kafka", True), ("postgres", True)]
    verified = client.verify_erasure(certificate, signature, key={"person": person})
    assert verified == {"is_valid": True, "why": "", "covers": True}
    forged = {**certificate, "dataset": "Others"}
    assert client.verify_erasure(forged, signature)["is_valid"] is False
    assert client.verify_erasure(certificate, signature, key={"person": KEPT})["covers"] is False
    return [sum(job["rows"] for job in one["deletions"]) for one in certificate["sinks"]]


def source_of_members() -> str:
    """Return the definition of `Members`, with its decorators."""
    (found,) = re.findall(
        r"^@source.*?(?=\n\n\n)",
        Path(members.__file__).read_text(encoding="utf-8"),
        re.MULTILINE | re.DOTALL,
    )
    return str(found)


def erased_by_page(client: Client, shell: Shell) -> list[dict[str, Any]]:
    """Type the commands of the page; return both erasures, which have certificates."""
    (commands,) = blocks(PAGE, "sh platform")
    by_key, by_file, listing, showing, verifying = commands.text.splitlines()
    (shell.directory / "persons.csv").write_text(f"person\n{ALSO_ERASED}\n")
    first = shell.prints(by_key, answer="y\n").strip()
    dropped = client.log("shop", "members", pd.DataFrame([row(ERASED, "chess", 3)]))
    assert (dropped.body["accepted"], dropped.body["erased"]) == (0, 1)
    second = shell.prints(by_file).strip()
    listed = shell.prints(listing).splitlines()
    assert [line.split()[0] for line in listed[1:3]] == [second, first]
    found = [
        wait_until(
            lambda one=one: certified(client, one),
            within_s=ERASURE_S,
            what="the erasure has a certificate",
            so_far=lambda one=one: client.erasure(one),
        )
        for one in (first, second)
    ]
    shell.types(showing, ID=first)
    signed = "the installation has signed the certificate\nit covers the key\n"
    assert shell.prints(verifying) == signed
    return found


def test_persons_are_erased_and_stay_erased(
    market: Market, new_postgres_dsn: Callable[[], str], tmp_path: Path
) -> None:
    platform, dsn = market.platform, new_postgres_dsn()
    client = joined(platform, dsn)
    assert len(everything(platform)) >= 6, "the search finds what is there"
    (definitions,) = blocks(PAGE, "python")
    assert source_of_members() in definitions.text
    shell = Shell(
        directory=tmp_path, variables=environment(platform.settings.home, NARTHEX_BRANCH=BRANCH)
    )

    by_key, by_file = erased_by_page(client, shell)

    assert answers(client) == (1, [KEPT], "none", "chess")
    assert looked_up(client) == [False, True]
    assert everything(platform) == []
    deleted = check_certificate(client, by_key, ERASED)
    also = check_certificate(client, by_file, ALSO_ERASED)
    # The first erasure may delete the row of the second one too, whose key is blocked already.
    assert [sum(rows) for rows in zip(deleted, also, strict=True)] == [2, 2], "no row of others"
    assert in_targets(platform, dsn) == ([KEPT], [KEPT])

    # Rows that arrive again stay away, those of others do not.
    again = client.log("shop", "members", pd.DataFrame([row(ERASED, "chess", 3)]))
    assert again.body["erased"] == 1
    client.log("shop", "members", pd.DataFrame([row("third-member-11", "chess", 4)]))
    wait_until(
        lambda: answers(client) == (2, ["third-member-11", KEPT], "none", "chess"),
        within_s=STREAM_S,
        what="the endpoint accepts rows of others",
        so_far=lambda: answers(client),
    )
    assert everything(platform) == []
    assert offline(client) == ["none", "chess"]
    remaining = [KEPT, "third-member-11"]
    wait_until(
        lambda: in_targets(platform, dsn) == (remaining, remaining),
        within_s=STREAM_S,
        what="the new sinks write",
        so_far=lambda: in_targets(platform, dsn),
    )
