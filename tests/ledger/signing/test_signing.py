"""The ledger returns only definitions that the installation has signed."""

import stat
from pathlib import Path

import pytest
import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import JSONB

from narthex._base.records import Json
from narthex_ledger import NotSigned, Signer


def test_the_same_content_is_signed_alike_and_opens_as_it_was(tmp_path: Path) -> None:
    signer, again = (Signer.load(tmp_path / "signing.key") for _ in range(2))

    signed = signer.sign(b"features")

    assert signed == again.sign(b"features")
    assert again.verifier.open(signed) == b"features"
    assert again.verifier.open(b"") == b""
    assert stat.S_IMODE((tmp_path / "signing.key").stat().st_mode) == 0o600


def test_changed_foreign_or_unsigned_rows_are_refused(tmp_path: Path) -> None:
    signer, other = Signer.load(tmp_path / "one"), Signer.load(tmp_path / "other")
    signed = signer.sign(b"features")
    changed = {bytes([*signed[:n], signed[n] ^ 1, *signed[n + 1 :]]) for n in range(len(signed))}

    for forged in (*changed, signed[:-1], signed + b"x", other.sign(b"features"), b"features"):
        with pytest.raises(NotSigned):
            signer.verifier.open(forged)


@pytest.mark.postgres
def test_a_statement_is_the_same_when_the_database_gives_its_numbers_back(
    tmp_path: Path, postgres_dsn: str
) -> None:
    signer = Signer.load(tmp_path / "signing.key")
    numbers: list[Json] = [1.0, 1e23, -1e300, 2.0**63, 1e-7, 0.1 + 0.2, 5e-324, -0.0, 2**63 + 1]
    engine = sa.create_engine(postgres_dsn)
    given = sa.select(sa.cast(sa.literal(numbers, sa.JSON), JSONB))

    with engine.connect() as connection:
        read = connection.execute(given).scalar_one()
    engine.dispose()

    assert [float(one) for one in read[:-1]] == numbers[:-1]
    signer.verifier.check(read, signer.attest(numbers), what="a list")
    with pytest.raises(NotSigned, match="a list of the ledger differs from the signed content"):
        signer.verifier.check([*read[:-1], 2**63], signer.attest(numbers), what="a list")
