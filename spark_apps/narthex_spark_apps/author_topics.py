"""Topics of authors: where their brokers are, and who we are to them."""

from narthex.connections import KafkaTopic
from narthex.settings import Settings
from narthex_spark_apps.author_places import require_place
from narthex_spark_apps.author_secrets import AuthorSecrets
from narthex_stores import Broker


def broker_of(topic: KafkaTopic, settings: Settings) -> Broker:
    """Give the broker of a topic, with the secrets that let us in.

    Raises:
        ForbiddenPlaceError: No source and no sink may have such a topic.
        SecretMissing: One of them is not there.
    """
    require_place(topic)
    if not topic.bootstrap_servers:
        return Broker(bootstrap=settings.kafka)
    reveal = AuthorSecrets.of(settings).reveal
    return Broker(
        bootstrap=topic.bootstrap_servers,
        protocol=topic.security_protocol,
        mechanism=topic.sasl_mechanism,
        username="" if topic.username is None else reveal(topic.username),
        password="" if topic.password is None else reveal(topic.password),
        ca_file=settings.ca_file,
    )
