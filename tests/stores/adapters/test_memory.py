import pytest
from typing_extensions import override

from narthex._ir.assets import AssetKind, AssetSpec, CheckpointSpec
from narthex_stores import (
    Absent,
    Adapter,
    Crash,
    Fault,
    FaultTiming,
    InMemoryAdapter,
    Match,
    Operation,
    TransientError,
    Unknown,
)
from tests.stores.adapters.adapter_suite import TIMEOUT_S, AdapterSuite

JOB = CheckpointSpec(job="a")


class TestInMemoryAdapter(AdapterSuite):
    @pytest.fixture
    @override
    def adapter(self) -> Adapter:
        return InMemoryAdapter(AssetKind.CHECKPOINT)

    @pytest.fixture
    @override
    def spec(self) -> AssetSpec:
        return JOB

    @pytest.fixture
    @override
    def other_spec(self) -> AssetSpec:
        return CheckpointSpec(job="b")


def test_a_create_with_a_lost_answer_has_created_the_asset() -> None:
    fault = Fault(operation=Operation.CREATE, error=TransientError("lost"), when=FaultTiming.AFTER)
    adapter = InMemoryAdapter(AssetKind.CHECKPOINT, faults=[fault])

    with pytest.raises(TransientError):
        adapter.create("a", JOB, asset_id=1, timeout_s=TIMEOUT_S)

    assert isinstance(adapter.probe("a", JOB, timeout_s=TIMEOUT_S), Match)


def test_a_crash_before_a_create_has_made_nothing() -> None:
    adapter = InMemoryAdapter(
        AssetKind.CHECKPOINT, faults=[Fault(operation=Operation.CREATE, error=Crash())]
    )

    with pytest.raises(Crash):
        adapter.create("a", JOB, asset_id=1, timeout_s=TIMEOUT_S)

    assert adapter.probe("a", JOB, timeout_s=TIMEOUT_S) == Absent()


def test_a_store_that_does_not_answer_a_probe_is_unknown_never_absent() -> None:
    adapter = InMemoryAdapter(
        AssetKind.CHECKPOINT,
        faults=[Fault(operation=Operation.PROBE, error=TransientError("silence"))],
    )

    assert adapter.probe("a", JOB, timeout_s=TIMEOUT_S) == Unknown("silence")
    assert adapter.probe("a", JOB, timeout_s=TIMEOUT_S) == Absent()
