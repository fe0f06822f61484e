"""Hosts that a definition may not reach, in every spelling, before and after they are resolved."""

import ipaddress
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from narthex._connectors.addresses import driver_options, kafka_targets, sink_address
from narthex._connectors.egress import (
    AddressInvalidError,
    Destination,
    EgressRules,
    denied_range,
    fits_host,
    is_granted,
    parse_host,
    parse_http,
    parse_path,
    parse_target,
    parse_targets,
    resolve,
)
from narthex._connectors.mongo import mongo_address
from narthex._ir.connections import KafkaTopic, SqlDatabase
from narthex.connectors import Secret
from narthex.errors import ConnectionDenied
from tests.cases import every

NOTHING = EgressRules()

UNUSUAL = [
    "2130706433",
    "0x7f000001",
    "0x7f.1",
    "0x7F.0.0.1",
    "017700000001",
    "0177.0.0.1",
    "127.1",
    "127.0.1",
    "127.0.0.01",
    "127.0.0.0x1",
    "010.0.0.1",
    "1.2.3.4.5",
    "256.1.1.1",
    "0x",
    "١٢٧.0.0.1",
    "１２７.0.0.1",  # noqa: RUF001 (the spelling is the point)
    "127。0。0。1",
    "ⓛocalhost",
    "evil.com\x00.example",
    "evil.com\n",
    " evil.com",
    "evil com",
    "",
    ".",
    "-a.com",
    "a..b",
    "/var/run/postgresql",
    "@abstract",
    "a,b",
    "a@b",
    "user:word@host",
    "fe80::1%eth0",
    "[::1",
    "::1]",
    "[127.0.0.1]",
    "a" * 64,
    ".".join(["a" * 60] * 5),
]

DENIED = [
    "127.0.0.1",
    "127.255.255.254",
    "localhost",
    "LOCALHOST",
    "localhost.",
    "db.localhost",
    "ip6-localhost",
    "0.0.0.0",  # noqa: S104 (a spelling that is denied)
    "0.1.2.3",
    "10.0.0.1",
    "172.16.0.1",
    "172.31.255.255",
    "192.168.1.1",
    "169.254.169.254",
    "169.254.0.1",
    "metadata.google.internal",
    "METADATA.google.internal.",
    "100.64.0.1",
    "100.100.100.200",
    "100.127.255.255",
    "168.63.129.16",
    "192.0.0.192",
    "198.18.0.1",
    "224.0.0.1",
    "239.255.255.250",
    "240.0.0.1",
    "255.255.255.255",
    "[::1]",
    "::1",
    "0:0:0:0:0:0:0:1",
    "[::]",
    "[fe80::1]",
    "[febf::1]",
    "[fec0::1]",
    "[fd00:ec2::254]",
    "[fc00::1]",
    "[ff02::1]",
    "[::ffff:127.0.0.1]",
    "[::ffff:8.8.8.8]",
    "[::127.0.0.1]",
    "[2002:7f00:1::]",
    "[64:ff9b::7f00:1]",
    "[64:ff9b:1::1]",
    "[2001::1]",
    "[2001:db8::1]",
    "[100::1]",
]

PUBLIC = [
    "8.8.8.8",
    "172.15.0.1",
    "172.32.0.1",
    "100.63.255.255",
    "100.128.0.1",
    "[2606:4700::1111]",
    "db.example.com",
    "db.example.com.",
    "a_b.example.com",
    "1.example.com",
]


@every("spelling", UNUSUAL)
def test_a_host_that_is_not_in_its_usual_spelling_is_not_read(spelling: str) -> None:
    with pytest.raises(AddressInvalidError):
        parse_host(spelling)
    with pytest.raises(AddressInvalidError):
        parse_http(f"http://{spelling}")


@every("host", DENIED)
def test_a_host_that_is_not_public_is_denied_unless_it_is_listed(host: str) -> None:
    target = parse_target(host, default_port=5432)

    assert NOTHING.refuse_unresolved(target)
    with pytest.raises(ConnectionDenied):
        resolve(target, NOTHING, look_up=_to("8.8.8.8"))
    assert not EgressRules.of([str(target)]).refuse_unresolved(target)
    assert EgressRules.of([str(attr_port(target, 1))]).refuse_unresolved(target)


@pytest.mark.parametrize("host", PUBLIC)
def test_a_public_host_is_allowed(host: str) -> None:
    target = parse_target(host, default_port=5432)

    assert NOTHING.refuse_unresolved(target) == ""
    assert resolve(target, NOTHING, look_up=_to("8.8.8.8", "2606:4700::1111"))


def attr_port(target: Destination, port: int) -> Destination:
    return Destination(target.host, port)


def _to(*addresses: str) -> object:
    def look_up(_host: str, _port: int) -> Sequence[str]:
        return addresses

    return look_up


private_v4 = st.sampled_from(
    [
        "0.0.0.0/8",
        "10.0.0.0/8",
        "100.64.0.0/10",
        "127.0.0.0/8",
        "169.254.0.0/16",
        "172.16.0.0/12",
        "192.168.0.0/16",
        "224.0.0.0/4",
        "240.0.0.0/4",
    ]
).flatmap(
    lambda network: st.integers(
        int(ipaddress.IPv4Network(network)[0]), int(ipaddress.IPv4Network(network)[-1])
    ).map(ipaddress.IPv4Address)
)


@given(private_v4)
def test_every_address_of_a_private_range_is_denied_in_every_form(
    address: ipaddress.IPv4Address,
) -> None:
    number = int(address)
    forms = [
        address,
        ipaddress.IPv6Address(0xFFFF << 32 | number),
        ipaddress.IPv6Address(number),
        ipaddress.IPv6Address(0x2002 << 112 | number << 80),
        ipaddress.IPv6Address(0x64FF9B << 96 | number),
    ]
    for form in forms:
        assert denied_range(form)
        with pytest.raises(ConnectionDenied):
            resolve(Destination("db.example.com", 5432), NOTHING, look_up=_to("8.8.8.8", str(form)))
    for spelling in (str(number), hex(number), f"0{number:o}"):
        with pytest.raises(AddressInvalidError):
            parse_host(spelling)


@given(st.integers(0, 2**32 - 1).map(ipaddress.IPv4Address))
def test_allowed_addresses_are_those_that_registries_call_global(
    address: ipaddress.IPv4Address,
) -> None:
    if not denied_range(address):
        assert address.is_global
        assert not address.is_multicast
        assert not address.is_reserved


@given(st.integers(0, 2**128 - 1).map(ipaddress.IPv6Address))
def test_an_address_of_ipv6_is_allowed_in_global_unicast_only(
    address: ipaddress.IPv6Address,
) -> None:
    if not denied_range(address):
        assert address in ipaddress.IPv6Network("2000::/3")
        assert address.sixtofour is None
        assert address.teredo is None
        assert address.ipv4_mapped is None


def test_all_addresses_of_a_name_must_be_allowed() -> None:
    target = Destination("db.example.com", 5432)

    with pytest.raises(ConnectionDenied, match=r"`db\.example\.com:5432` is at 127\.0\.0\.1"):
        resolve(target, NOTHING, look_up=_to("8.8.8.8", "127.0.0.1"))
    with pytest.raises(OSError, match="has no address"):
        resolve(target, NOTHING, look_up=_to())
    assert resolve(target, NOTHING, look_up=_to("8.8.8.8")) == (ipaddress.ip_address("8.8.8.8"),)


@every(
    ("allow", "host", "is_allowed"),
    [
        ("10.0.0.0/8", "10.1.2.3", True),
        ("10.0.0.0/8", "11.1.2.3", True),
        ("10.0.0.0/8", "192.168.0.1", False),
        ("10.1.2.3:5432", "10.1.2.3", True),
        ("10.1.2.3:5433", "10.1.2.3", False),
        ("10.1.2.3", "10.1.2.3", True),
        ("[::1]:5432", "[::1]", True),
        ("::1", "[::1]", True),
        ("127.0.0.1", "[::ffff:127.0.0.1]", False),
        ("fd00::/8", "[fd00::1]", True),
        ("db.internal:5432", "db.internal", True),
        ("DB.internal", "db.internal", True),
        ("*.internal", "a.b.internal", True),
        ("*.internal", "internal.evil", False),
    ],
)
def test_an_entry_allows_what_it_names_and_nothing_else(
    allow: str, host: str, *, is_allowed: bool
) -> None:
    target = parse_target(host, default_port=5432)
    rules = EgressRules.of([allow])

    try:
        resolve(target, rules, look_up=_to("10.9.9.9" if "/" not in allow else "192.168.9.9"))
    except ConnectionDenied:
        assert not is_allowed
    else:
        assert is_allowed


def test_an_allowed_name_is_allowed_wherever_it_resolves() -> None:
    rules = EgressRules.of(["db.internal:5432"])

    assert resolve(Destination("db.internal", 5432), rules, look_up=_to("127.0.0.1"))
    with pytest.raises(ConnectionDenied):
        resolve(Destination("db.internal", 5433), rules, look_up=_to("127.0.0.1"))


@pytest.mark.parametrize(
    ("pattern", "host", "fits"),
    [
        ("*", "anything.example", True),
        ("*.example.com", "db.example.com", True),
        ("*.example.com", "a.b.example.com", True),
        ("*.example.com", "example.com", False),
        ("*.example.com", "evilexample.com", False),
        ("*.example.com", "x.example.com.evil.org", False),
        ("db*", "db1", True),
        ("db*", "db.evil.com", False),
        ("db-?.internal", "db-1.internal", True),
        ("db-?.internal", "db-1.evil.internal", False),
        ("10.0.*.*", "10.0.1.2", True),
        ("10.0.*.*", "10.0.evil.com", False),
        ("db.*", "db.evil", False),
    ],
)
def test_a_pattern_never_fits_a_name_of_another_domain(
    pattern: str, host: str, *, fits: bool
) -> None:
    assert fits_host(host, pattern) is fits


def test_a_secret_is_granted_to_a_host_and_a_port() -> None:
    assert is_granted(Destination("db", 5432), ["db:5432"])
    assert is_granted(Destination("db", 5432), ["other", "db"])
    assert is_granted(Destination("::1", 9092), ["[::1]:9092"])
    assert not is_granted(Destination("db", 5433), ["db:5432"])
    assert not is_granted(Destination("db", 5432), [])


def test_lists_of_brokers_are_read_whole() -> None:
    assert parse_targets("a:9092, b,[::1]:9093", default_port=9092) == (
        Destination("a", 9092),
        Destination("b", 9092),
        Destination("::1", 9093),
    )
    for text in ("", "a:9092,", "SSL://a:9092", "a:9092;b:9092", "a:0", "a:65536", "a:9092:1"):
        with pytest.raises(AddressInvalidError):
            parse_targets(text)


def test_a_protocol_of_kafka_is_one_that_is_known() -> None:
    topic = KafkaTopic(name="k", bootstrap_servers="a", topic="t", security_protocol="SASL")

    with pytest.raises(AddressInvalidError):
        kafka_targets(topic)


@every(
    "url",
    [
        "ftp://a",
        "file:///etc/passwd",
        "gopher://a:70/_x",
        "http://user@a",
        "http://user:word@a",
        "http://a#b",
        "http://a?b=c",
        "http://a/b?c",
        "http://a\\@b",
        "http://a\r\nX: y",
        "http://a:b",
        "http://a:99999",
        "http:///a",
        "http://",
        "http://[::1",
        "http://a/b c",
        "//a",
    ],
)
def test_an_address_over_http_has_a_host_and_a_path_only(url: str) -> None:
    with pytest.raises(AddressInvalidError):
        parse_http(url)


def test_an_address_over_http_keeps_its_parts() -> None:
    address = parse_http("https://Registry.example.com/api/")

    assert (address.scheme, address.target.host, address.port, address.path) == (
        "https",
        "registry.example.com",
        443,
        "/api",
    )
    assert parse_http("db.example.com:80").port == 80
    with pytest.raises(AddressInvalidError):
        sink_address("https://a/path")


@pytest.mark.parametrize(
    "path", ["http://b/c", "//b/c", "/a#b", "/a b", "/a\r\nHost: b", "/a\\b", "/a\x00"]
)
def test_a_path_names_no_server(path: str) -> None:
    with pytest.raises(AddressInvalidError):
        parse_path(path)


def test_a_path_begins_at_the_root() -> None:
    assert [parse_path(path) for path in ("a", "/a", "/a?b=http://c")] == [
        "/a",
        "/a",
        "/a?b=http://c",
    ]


@every(
    ("kind", "parameters"),
    [
        ("postgres", f"{name}=x")
        for name in (
            "host",
            "hostaddr",
            "port",
            "dbname",
            "user",
            "passfile",
            "service",
            "options",
            "sslkey",
            "sslcert",
            "sslrootcert",
            "sslcrl",
            "krbsrvname",
            "requirepeer",
            "SSLMODE",
            "",
        )
    ]
    + [
        ("postgres", "sslmode=disable&sslmode=require"),
        ("postgres", "sslmode=a b"),
        ("postgres", "application_name=/etc/passwd"),
        ("mysql", "allowLoadLocalInfile=true"),
        ("mysql", "sslMode=REQUIRED&useSSL=true"),
        ("mysql", "socketFactory=x"),
    ],
)
def test_a_driver_is_set_up_by_a_list_of_options(kind: str, parameters: str) -> None:
    with pytest.raises(AddressInvalidError):
        driver_options(_sql(kind, parameters))


def test_listed_options_pass() -> None:
    assert driver_options(_sql("postgres", "sslmode=verify-full&connect_timeout=3")) == {
        "sslmode": "verify-full",
        "connect_timeout": "3",
    }
    assert driver_options(_sql("mysql", "sslMode=REQUIRED")) == {"sslMode": "REQUIRED"}
    assert driver_options(_sql("postgres", None)) == {}


def _sql(kind: str, parameters: str | None) -> SqlDatabase:
    word = Secret("word")
    return SqlDatabase(
        kind=kind,
        name="d",
        host="db",
        port=1,
        db_name="d",
        username=word,
        password=word,
        jdbc_params=parameters,
    )


@pytest.mark.parametrize(
    "host",
    [
        "mongodb://a/?tlsCAFile=/etc/passwd",
        "mongodb://a/?tlsCertificateKeyFile=/etc/passwd",
        "mongodb://a/?authMechanism=PLAIN",
        "mongodb://a/?proxyHost=127.0.0.1",
        "mongodb://u:p@a/",
        "mongodb://%2Ftmp%2Fmongodb-27017.sock",
        "/tmp/mongodb.sock",
        "postgres://a",
        "mongodb+srv://a,b",
        "mongodb://a/db/more",
    ],
)
def test_a_deployment_of_mongodb_is_hosts_and_known_options(host: str) -> None:
    with pytest.raises(AddressInvalidError):
        mongo_address(host)


def test_a_deployment_of_mongodb_keeps_its_parts() -> None:
    plain, atlas = mongo_address("a,b:1"), mongo_address("c.x.mongodb.net")

    assert plain.url == "mongodb://a:27017,b:1/"
    assert (atlas.url, atlas.has_tls) == ("mongodb+srv://c.x.mongodb.net/", True)
    assert mongo_address("mongodb://a/?tls=true").has_tls
