"""A sound platform is proved equal; each thing that is spoiled is found, with why it is wrong."""

from pathlib import Path

import lmdb
import pytest

from narthex_proving.proof_runs import DIFFERENT, NOT_COMPARED, status_of, told
from narthex_stores import shard_path
from tests.proving.corruptions import CORRUPTIONS, Corruption, spoiled
from tests.proving.proving_shop import START, Shop, store_shop

pytestmark = [pytest.mark.kafka, pytest.mark.slow]


@pytest.fixture(scope="module")
def shop(kafka_bootstrap: str, tmp_path_factory: pytest.TempPathFactory) -> Shop:
    return store_shop(kafka_bootstrap, tmp_path_factory.mktemp("shop"))


def test_correct_stores_prove_equal(shop: Shop) -> None:
    proof = shop.prove()

    assert proof.differences == ()
    assert proof.unproved == ()
    assert proof.compared["Priced.log"] == 899
    assert proof.compared["Spend.index"] > 12 * 20
    assert proof.compared["Orders.history"] == 919


def test_each_shard_of_a_divided_index_is_proved(kafka_bootstrap: str, tmp_path: Path) -> None:
    divided = store_shop(kafka_bootstrap, tmp_path, partitions=4)
    path, spec = divided.index("Buyers")
    assert spec.shards == 4
    assert divided.prove().differences == ()

    for shard in range(spec.shards):
        drop_first_row(shard_path(path, spec, shard))

    found = divided.prove("Buyers").differences
    assert len([one for one in found if one.what == "a stored row"]) == spec.shards
    assert {one.store for one in found} == {"index"}


def drop_first_row(directory: Path) -> None:
    """Remove the first row of an LMDB index."""
    environment = lmdb.open(str(directory), max_dbs=4)
    table = environment.open_db(b"facts")
    with environment.begin(write=True) as transaction, transaction.cursor(db=table) as cursor:
        assert cursor.first()
        assert cursor.delete()
    environment.close()


def test_an_index_that_has_deleted_rows_proves_equal(shop: Shop) -> None:
    path, spec = shop.index("Lately")
    index = shop.platform.indexes.open(path.name, spec, readonly=True)
    with index.read() as snapshot:
        answered_from = snapshot.answered_from
    index.close()

    proof = shop.prove("Lately")

    assert answered_from is not None
    assert answered_from > START
    assert proof.differences == ()
    assert proof.compared["Lately.index"] > 12 * 20


@pytest.mark.parametrize("one", CORRUPTIONS, ids=lambda one: one.name.replace(" ", "-"))
def test_a_proof_finds_each_corruption(shop: Shop, one: Corruption, tmp_path: Path) -> None:
    proof = spoiled(shop, one, tmp_path / "spoiled").prove(one.dataset)

    found = one.found_in(proof)
    assert found is not None, proof.differences
    assert status_of(proof) == DIFFERENT
    assert (found.found, found.meant) != (None, None)
    assert found.told() in told(proof)
    if found.meant is not None and one.store != "history" and "offset" not in found.what:
        assert found.made_of


def test_ten_kinds_at_least_are_seeded() -> None:
    assert len({one.name for one in CORRUPTIONS}) == len(CORRUPTIONS) >= 10


def test_a_share_of_the_keys_has_all_that_they_are_made_of(shop: Shop, tmp_path: Path) -> None:
    one = next(one for one in CORRUPTIONS if one.name == "a wrong value")
    wrong = spoiled(shop, one, tmp_path / "spoiled")

    proofs = [(share, wrong.prove("Spend", sample=share)) for share in (0.3, 0.6, 1.0)]

    counts = [proof.compared["Spend.index"] for _, proof in proofs]
    assert 0 < counts[0] < counts[1] < counts[2]
    keys = {str((d.key or {})["buyer"]) for _, proof in proofs for d in proof.differences}
    assert keys == {one.key}
    assert shop.prove(sample=0.5).differences == ()


def test_undrained_topics_are_not_compared(kafka_bootstrap: str, tmp_path: Path) -> None:
    behind = store_shop(kafka_bootstrap, tmp_path, jobs_behind=True)

    proof = behind.prove(wait_s=0)

    assert proof.differences == ()
    assert {(one.dataset, one.store) for one in proof.unproved} == {
        ("Priced", "log"),
        ("Spend", "log"),
        ("Spend", "index"),
        ("Lately", "log"),
        ("Lately", "index"),
    }
    assert "does not run" in proof.unproved[0].why
    assert proof.compared["Buyers.index"] > 0
    assert status_of(proof) == NOT_COMPARED
