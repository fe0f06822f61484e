"""Addresses of index stores: what is accepted, what is verified, and what is never logged."""

import datetime as dt
import ipaddress
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from narthex_stack.machine.ports import HOST, free_ports
from narthex_stores import PermanentError, TransientError
from narthex_stores.indexes import RedisServers, parse_address
from narthex_stores.indexes.redis.servers import ServerCall
from tests.redis_servers import RedisNode, redis_cluster, redis_server, require_redis

PASSWORD = "the-password-of-the-store"


def test_an_address_has_a_host_a_port_and_an_account() -> None:
    address = parse_address("rediss://reader@cache.example:7000", password=PASSWORD)

    assert (address.servers, address.user) == ((("cache.example", 7000),), "reader")
    assert address.is_encrypted
    assert str(address) == "rediss://cache.example:7000"
    assert parse_address("redis://cache.example").servers == (("cache.example", 6379),)


def test_an_address_may_name_several_servers_of_a_cluster() -> None:
    address = parse_address("redis://reader@one:7000,two,[::1]:7002")

    assert address.servers == (("one", 7000), ("two", 6379), ("::1", 7002))
    assert address.user == "reader"


@pytest.mark.redis
def test_the_first_server_that_replies_is_asked_for_the_others(tmp_path: Path) -> None:
    require_redis()
    (silent,) = free_ports(1)
    with redis_cluster(tmp_path) as nodes:
        servers = RedisServers(parse_address(f"redis://{HOST}:{silent},{HOST}:{nodes[1].port}"))
        calls = [ServerCall("SET", b"%d" % number, ("1",)) for number in range(30)]
        assert servers.run(calls) == [b"OK"] * 30
        servers.close()


@pytest.mark.redis
def test_several_servers_that_are_not_a_cluster_are_refused(tmp_path: Path) -> None:
    require_redis()
    with (
        redis_server(tmp_path / "a") as one,
        redis_server(tmp_path / "b") as two,
        pytest.raises(PermanentError, match="not part of a cluster"),
    ):
        RedisServers(parse_address(f"{one.url},{HOST}:{two.port}"))


def test_a_password_appears_in_no_text_of_an_address() -> None:
    address = parse_address("redis://cache.example", password=PASSWORD)
    with pytest.raises(PermanentError, match="NARTHEX_INDEX_STORE_PASSWORD") as refused:
        parse_address(f"redis://me:{PASSWORD}@cache.example")

    assert PASSWORD not in repr(address) + str(address) + str(refused.value)


@pytest.mark.parametrize(
    "url",
    [
        "http://a",
        "redis://",
        "redis://a,",
        "redis://a,b:c",
        "redis://a:b",
        "redis://a/3",
        "redis://a?ssl_cert_reqs=none",
        "a:1",
    ],
)
def test_another_url_is_refused(url: str) -> None:
    with pytest.raises(PermanentError):
        parse_address(url)


@pytest.mark.redis
def test_a_server_is_reached_by_tls_and_password_only(tmp_path: Path) -> None:
    require_redis()
    certificate, key = _certificate(tmp_path)
    (port,) = free_ports(1)
    node = RedisNode(
        home=tmp_path / "redis",
        port=port,
        options=(
            *("--port", "0", "--tls-port", str(port), "--tls-auth-clients", "no"),
            *("--tls-cert-file", str(certificate), "--tls-key-file", str(key)),
            *("--tls-ca-cert-file", str(certificate), "--requirepass", PASSWORD),
        ),
        client={"password": PASSWORD, "ssl": True, "ssl_ca_certs": str(certificate)},
    )
    url = f"rediss://{HOST}:{port}"
    with node.running():
        servers = RedisServers(parse_address(url, password=PASSWORD, ca_file=str(certificate)))
        assert servers.run([ServerCall("SET", b"a", ("1",)), ServerCall("GET", b"a")])[1] == b"1"
        with pytest.raises(PermanentError, match="NARTHEX_INDEX_STORE_PASSWORD") as refused:
            RedisServers(parse_address(url, password="another", ca_file=str(certificate)))
        with pytest.raises(TransientError, match="certificate verify failed"):
            RedisServers(parse_address(url, password=PASSWORD))
        with pytest.raises(TransientError):
            RedisServers(parse_address(f"redis://{HOST}:{port}", password=PASSWORD))
    assert "another" not in str(refused.value)
    assert PASSWORD not in repr(servers.address)


def _certificate(directory: Path) -> tuple[Path, Path]:
    """Write a certificate of this machine's address that signs itself, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, HOST)])
    address = x509.IPAddress(ipaddress.ip_address(HOST))
    began = dt.datetime.now(dt.UTC) - dt.timedelta(days=1)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(began)
        .not_valid_after(began + dt.timedelta(days=2))
        .add_extension(
            x509.SubjectAlternativeName([address]),
            critical=False,
        )
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    paths = directory / "certificate.pem", directory / "key.pem"
    paths[0].write_bytes(made.public_bytes(serialization.Encoding.PEM))
    paths[1].write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return paths
