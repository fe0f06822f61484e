"""Rings of public keys: their file, and running processes that follow it."""

from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from narthex_ledger import KeyFileError, KeyRing, NotSigned, Signer, Verifier, load_signing


def signers(count: int) -> list[Signer]:
    return [Signer(Ed25519PrivateKey.generate()) for _ in range(count)]


def test_a_ring_of_one_bare_key_is_read(tmp_path: Path) -> None:
    (signer,) = signers(1)
    (tmp_path / "signing.pub").write_bytes(signer.public.raw)

    verifier = Verifier.load(tmp_path / "signing.pub")
    verifier.check(["a"], signer.attest(["a"]), what="a list")
    assert verifier.ring.keys[0].since


def test_a_verifier_follows_the_file_of_its_ring(tmp_path: Path) -> None:
    path, (old, new) = tmp_path / "signing.pub", signers(2)
    ring = KeyRing((old.public,))
    ring.write(path)
    verifier = Verifier.load(path)
    by_old, by_new = (one.attest(["a"]) for one in (old, new))
    verifier.check(["a"], by_old, what="it")
    with pytest.raises(NotSigned, match="by another key"):
        verifier.check(["a"], by_new, what="it")

    ring.with_key(new.public).write(path)
    verifier.check(["a"], by_old, what="it")
    verifier.check(["a"], by_new, what="it")
    verifier.ring.without_key(old.public).write(path)

    verifier.check(["a"], by_new, what="it")
    with pytest.raises(NotSigned, match="by another key"):
        verifier.check(["a"], by_old, what="it")
    verifier.check_retired(["a"], by_old, what="it")
    with pytest.raises(NotSigned, match="by another key"):
        verifier.check_retired(["a"], by_new, what="it")
    path.unlink()
    verifier.check(["a"], by_new, what="it")


def test_a_key_that_takes_the_place_of_another_one_signs(tmp_path: Path) -> None:
    key, ring = tmp_path / "signing.key", tmp_path / "signing.pub"
    signer, verifier = load_signing(key, ring)
    first = signer.public.key_id

    Signer.load(tmp_path / "next")
    (tmp_path / "next").replace(key)

    assert signer.public.key_id != first
    with pytest.raises(NotSigned, match="by another key"):
        verifier.check(["a"], signer.attest(["a"]), what="it")
    with pytest.raises(KeyFileError, match="does not have the public half"):
        load_signing(key, ring)


@pytest.mark.parametrize("content", [b"", b"x" * 33, b"[]", b'{"keys": [{"public": "zz"}]}'])
def test_a_file_without_a_ring_is_refused_with_its_path(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "signing.pub").write_bytes(content)

    with pytest.raises(KeyFileError, match=r"signing.pub` is not a ring of public keys"):
        Verifier.load(tmp_path / "signing.pub")
