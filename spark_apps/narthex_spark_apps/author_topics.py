"""Topics of authors: where their brokers are, and who we are to them."""

from narthex.connections import KafkaTopic
from narthex.secret_files import SecretFiles
from narthex.settings import Settings
from narthex_stores import Broker


def broker_of(topic: KafkaTopic, settings: Settings) -> Broker:
    """Give the broker of a topic, with the secrets that let us in.

    Raises:
        SecretMissing: One of them is not there.
    """
    if not topic.bootstrap_servers:
        return Broker(bootstrap=settings.kafka)
    reveal = SecretFiles(settings.secrets_dir).reveal
    return Broker(
        bootstrap=topic.bootstrap_servers,
        protocol=topic.security_protocol,
        mechanism=topic.sasl_mechanism,
        username="" if topic.username is None else reveal(topic.username),
        password="" if topic.password is None else reveal(topic.password),
        ca_file=settings.ca_file,
    )
