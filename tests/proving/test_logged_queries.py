"""Logged queries are repeated on the state of the logs when they were answered."""

from collections.abc import Sequence
from pathlib import Path

import attrs
import pytest

from narthex._formats.json_cells import render_cells
from narthex._ir.assets import DatasetPlan, TopicRole, TopicSpec
from narthex._ir.facts import Cell
from narthex._query.execution import execute
from narthex._query.logged_queries import LoggedQuery, answers_topic
from narthex._query.read_plan import plan as plan_read
from narthex._testing.in_process import InProcessCalls
from narthex_proving.logged_query_proof import logged_queries
from narthex_proving.logs import read_log
from narthex_proving.proof import ProofRequest, prove
from narthex_proving.proof_runs import DIFFERENT, status_of, told
from narthex_stores import LmdbIndex, LogProducer, LogReader, LookupResult, TopicAdapter
from tests.proving.proving_shop import MINUTE, ORDERS, START, Shop, store_shop

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

ASKED = [f"b{number}" for number in range(12)]
LATE = START + ORDERS * 5 * MINUTE
SHARES = (0.1, 0.4, 0.4, 0.9, 1.0)


@pytest.fixture
def shop(kafka_bootstrap: str, tmp_path: Path) -> Shop:
    return store_shop(kafka_bootstrap, tmp_path / "shop")


def answered(shop: Shop, share: float, *, home: Path) -> LoggedQuery:
    """Answer as the server would that has taken in a share of each log."""
    platform = shop.platform
    plan = plan_read(
        platform.definitions, platform.plans, inputs=("Buyer.buyer",), outputs=("Buyer",)
    )
    offsets: dict[str, dict[str, dict[str, int]]] = {}
    end_offsets = LogReader(shop.bootstrap)

    def lookup(
        plan: DatasetPlan, keys: Sequence[tuple[Cell, ...]], as_of: Sequence[int]
    ) -> Sequence[LookupResult | None]:
        topic = platform.topic(plan.name).physical_name
        whole = read_log(
            shop.bootstrap,
            topic,
            dataset=plan.name,
            spec=plan.log,
            ends={
                partition: end for (_, partition), end in end_offsets.end_offsets([topic]).items()
            },
            tell=lambda _: None,
        )
        ends = {partition: int(share * end) for partition, end in whole.ends.items()}
        offsets[plan.name] = {topic: {str(p): end for p, end in ends.items()}}
        where = home / plan.name
        where.mkdir(parents=True)
        index = LmdbIndex(where, shop.index(plan.name)[1])
        index.apply([row.fact for row in whole.below(ends)], offsets={}, epoch=1)
        with index.read() as snapshot:
            found = snapshot.lookup(keys, as_of)
        index.close()
        return found

    with end_offsets:
        answers = execute(
            plan,
            {"Buyer.buyer": ASKED},
            lookup=lookup,
            workers=InProcessCalls(),
            as_of=[LATE] * len(ASKED),
        )
    return LoggedQuery(
        tenant="1",
        branch="main",
        commit_id=str(platform.commit_id),
        as_of=LATE,
        workflow="training",
        inputs={"Buyer.buyer": [*ASKED]},
        outputs={name: render_cells(answers[name], plan.types[name]) for name in plan.outputs},
        offsets=offsets,
    )


def keep(shop: Shop, answers: Sequence[LoggedQuery]) -> None:
    topic = answers_topic(shop.platform.install_id)
    spec = TopicSpec(role=TopicRole.INGEST, partitions=1)
    TopicAdapter.connect(shop.bootstrap).create(topic, spec, asset_id=0, timeout_s=30.0)
    with LogProducer(shop.bootstrap) as producer:
        for answer in answers:
            producer.post(topic, value=answer.encoded(), key=None)
        producer.flush()


def test_right_answers_are_right_at_the_offsets_that_they_were_read_at(
    shop: Shop, tmp_path: Path
) -> None:
    answers = [answered(shop, share, home=tmp_path / f"i{n}") for n, share in enumerate(SHARES)]
    other = attrs.evolve(answers[0], commit_id="another", outputs={})
    keep(shop, [*reversed(answers), other])

    proof = shop.prove()

    assert proof.differences == ()
    assert proof.compared["answers"] == len(SHARES)
    assert answers[0].outputs != answers[-1].outputs
    assert proof.changed_answers == len(
        [one for one in answers if one.outputs != answers[-1].outputs]
    )
    assert f"{proof.changed_answers} answers would differ now" in told(proof)


def test_an_answer_that_was_wrong_is_found_with_what_is_right(shop: Shop, tmp_path: Path) -> None:
    right = answered(shop, 0.4, home=tmp_path / "i")
    amounts = [*right.outputs["Buyer.amount"]]
    amounts[3] = -1
    wrong = attrs.evolve(right, outputs={**right.outputs, "Buyer.amount": amounts})
    keep(shop, [right, wrong])

    proof = shop.prove()

    (found,) = proof.differences
    assert (found.dataset, found.store, found.instant) == ("Buyer", "answers", LATE)
    assert found.key == {"Buyer.buyer": "b3"}
    assert found.found == {"Buyer.amount": -1}
    assert found.meant == {"Buyer.amount": right.outputs["Buyer.amount"][3]}
    assert found.answer is not None
    assert (found.answer.feature, found.answer.commit_id) == ("Buyer.amount", wrong.commit_id)
    assert (found.answer.partition, found.answer.offset) == (0, 1)
    assert found.answer.offsets == right.offsets
    assert "  answer logged as 0/1, read below " in told(proof)
    assert status_of(proof) == DIFFERENT


def test_only_answers_are_repeated_while_a_job_does_not_run(shop: Shop, tmp_path: Path) -> None:
    keep(shop, [answered(shop, 0.4, home=tmp_path / "i")])
    stopped = attrs.evolve(shop.platform, jobs_read=dict)

    proof = prove(
        stopped,
        ProofRequest(only_answers=True, wait_s=3600.0),
        calls=InProcessCalls(),
        tell=lambda _: None,
    )

    assert (dict(proof.compared), proof.differences, proof.unproved) == ({"answers": 1}, (), ())


def test_a_seed_draws_the_same_queries_again_and_another_seed_draws_others(shop: Shop) -> None:
    query = LoggedQuery(
        tenant="1",
        branch="main",
        commit_id=str(shop.platform.commit_id),
        as_of=LATE,
        workflow="",
        inputs={"Buyer.buyer": ["b0"]},
        outputs={"Buyer.amount": [0]},
        offsets={},
    )
    keep(shop, [query] * 200)

    def drawn(**asked: int) -> list[int]:
        return [one.offset for one in logged_queries(shop.platform, **asked)]

    first = drawn(most=20, seed=1)
    assert drawn(most=20, seed=1) == first
    assert first == sorted(set(first))
    assert drawn(most=20, seed=2) != first
    assert len(drawn(most=20, seed=2)) == len(first) == 20
    assert set(first) <= set(drawn(most=40, seed=1))
    assert drawn(most=1000, seed=1) == list(range(200))
    assert drawn(most=0, seed=1) == []
    assert drawn(most=20, seed=1, since_ms=2**52) == []
    assert len(drawn(most=20, seed=1, since_ms=0)) == 20


def test_an_answer_that_names_offsets_it_was_not_read_at_is_found(
    shop: Shop, tmp_path: Path
) -> None:
    early = answered(shop, 0.1, home=tmp_path / "early")
    late = answered(shop, 1.0, home=tmp_path / "late")
    keep(shop, [attrs.evolve(early, offsets=late.offsets)])

    proof = shop.prove()

    assert {one.store for one in proof.differences} == {"answers"}
