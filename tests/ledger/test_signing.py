"""What the ledger hands out as definitions is what the installation has signed."""

import stat
from pathlib import Path

import pytest

from narthex_ledger import NotSigned, Signer


def test_the_same_content_is_signed_alike_and_opens_as_it_was(tmp_path: Path) -> None:
    signer, again = (Signer.load(tmp_path / "signing.key") for _ in range(2))

    signed = signer.sign(b"features")

    assert signed == again.sign(b"features")
    assert again.verifier.open(signed) == b"features"
    assert again.verifier.open(b"") == b""
    assert stat.S_IMODE((tmp_path / "signing.key").stat().st_mode) == 0o600


def test_what_was_changed_or_signed_elsewhere_or_not_at_all_is_refused(tmp_path: Path) -> None:
    signer, other = Signer.load(tmp_path / "one"), Signer.load(tmp_path / "other")
    signed = signer.sign(b"features")
    changed = {bytes([*signed[:n], signed[n] ^ 1, *signed[n + 1 :]]) for n in range(len(signed))}

    for forged in (*changed, signed[:-1], signed + b"x", other.sign(b"features"), b"features"):
        with pytest.raises(NotSigned):
            signer.verifier.open(forged)
