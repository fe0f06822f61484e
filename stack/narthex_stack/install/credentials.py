"""The secrets of an installation: generated once, in one file that only its account reads."""

import base64
import secrets
import string
from pathlib import Path

import attrs

from narthex_stack.machine.files import load_object, store_json

_ALPHABET = string.ascii_lowercase + string.digits


def _install_id() -> str:
    return "".join(secrets.choice(_ALPHABET) for _ in range(8))


def _fernet_key() -> str:
    return base64.urlsafe_b64encode(secrets.token_bytes(32)).decode()


def _password() -> str:
    return secrets.token_hex(16)


@attrs.frozen(kw_only=True, repr=False)
class Credentials:
    """The random values of an installation; never logged.

    Attributes:
        install_id: Eight characters [a-z0-9] in each physical name; random too, but not a secret.
        token: The token of the platform's own processes.
        dags_token: The token of Airflow's processes, which has fewer rights.
        postgres_password: The password of the superuser.
        ledger_password: The password of the role of the database `narthex`.
        kafka_password: The password of Kafka's only user.
        airflow_db_password: The password of the role of the database `airflow`.
        airflow_password: The password of Airflow's user `admin`.
        op_password: The password of Airflow's user `op`, who may approve.
        viewer_password: The password of Airflow's user `viewer`.
        jwt_secret: Signs the messages between Airflow's processes.
        secret_key: Signs Airflow's sessions.
        fernet_key: Encrypts Airflow's connections.
    """

    install_id: str = attrs.field(factory=_install_id)
    token: str = attrs.field(factory=lambda: secrets.token_urlsafe(32))
    dags_token: str = attrs.field(factory=lambda: secrets.token_urlsafe(32))
    postgres_password: str = attrs.field(factory=_password)
    ledger_password: str = attrs.field(factory=_password)
    kafka_password: str = attrs.field(factory=_password)
    airflow_db_password: str = attrs.field(factory=_password)
    airflow_password: str = attrs.field(factory=_password)
    op_password: str = attrs.field(factory=_password)
    viewer_password: str = attrs.field(factory=_password)
    jwt_secret: str = attrs.field(factory=lambda: secrets.token_hex(64))
    secret_key: str = attrs.field(factory=lambda: secrets.token_hex(32))
    fernet_key: str = attrs.field(factory=_fernet_key)


def ensure_credentials(path: Path) -> Credentials:
    """Load the secrets; generate and store missing ones."""
    stored = {
        name: value
        for name, value in load_object(path).items()
        if isinstance(value, str) and name in attrs.fields_dict(Credentials)
    }
    credentials = Credentials(**stored)
    store_json(path, attrs.asdict(credentials))
    return credentials
