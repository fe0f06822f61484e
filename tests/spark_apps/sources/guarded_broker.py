"""A Kafka broker with a second listener, behind TLS, that requires a name and a password."""

import datetime as dt
import ipaddress
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import attrs
from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from narthex_stack.machine.ports import free_ports
from narthex_stack.servers import kafka
from narthex_stack.servers.local_servers import running

USER, WORD = "shop", 'quo"te\\d'


@attrs.frozen(kw_only=True)
class BrokerListeners:
    """The listeners of one broker.

    Attributes:
        open: The listener without authentication.
        guarded: The listener with TLS and SASL, PLAIN or SCRAM-SHA-512.
        ca_file: The certificate authority.
    """

    open: str
    guarded: str
    ca_file: Path


@contextmanager
def guarded_broker(home: Path) -> Iterator[BrokerListeners]:
    """Run such a broker below a directory."""
    port, controller_port, guarded_port = free_ports(3)
    broker = kafka.KafkaNode(directory=home / "kafka", port=port, controller_port=controller_port)
    keystore, ca_file = _certificate(home)
    doors = BrokerListeners(
        open=broker.bootstrap, guarded=f"127.0.0.1:{guarded_port}", ca_file=ca_file
    )

    def prepare() -> None:
        kafka.prepare(broker)
        with (broker.directory / "server.properties").open("a") as file:
            file.write(_second_door(broker, doors, keystore))

    with running(attrs.evolve(kafka.service(broker), prepare=prepare), home=home):
        info = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
        wanted = UserScramCredentialUpsertion(USER, info, WORD.encode())
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        for done in admin.alter_user_scram_credentials([wanted]).values():
            done.result(30)
        yield doors


def _second_door(broker: kafka.KafkaNode, doors: BrokerListeners, keystore: Path) -> str:
    # In a file of properties a backslash is written twice, and the login's text needs it escaped.
    word = WORD.replace("\\", "\\\\").replace('"', '\\"').replace("\\", "\\\\")
    login = "org.apache.kafka.common.security"
    plain, controller = f"CLIENTS://{doors.open}", f"127.0.0.1:{broker.controller_port}"
    values = {
        "listeners": f"{plain},CONTROLLER://{controller},GUARDED://{doors.guarded}",
        "advertised.listeners": f"{plain},GUARDED://{doors.guarded}",
        "listener.security.protocol.map": (
            "CLIENTS:PLAINTEXT,CONTROLLER:PLAINTEXT,GUARDED:SASL_SSL"
        ),
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
        "listener.name.guarded.plain.sasl.jaas.config": (
            f'{login}.plain.PlainLoginModule required user_{USER}="{word}";'
        ),
        "listener.name.guarded.scram-sha-512.sasl.jaas.config": (
            f"{login}.scram.ScramLoginModule required;"
        ),
        "listener.name.guarded.ssl.keystore.type": "PEM",
        "listener.name.guarded.ssl.keystore.location": str(keystore),
    }
    return "".join(f"{name}={value}\n" for name, value in values.items())


def _certificate(home: Path) -> tuple[Path, Path]:
    """Make a certificate of 127.0.0.1 that vouches for itself: with its key, and alone."""
    home.mkdir(parents=True, exist_ok=True)
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    now = dt.datetime.now(dt.UTC)
    address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([address]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    public = made.public_bytes(serialization.Encoding.PEM)
    keystore, alone = home / "broker.pem", home / "ca.pem"
    keystore.write_bytes(private + public)
    alone.write_bytes(public)
    return keystore, alone
