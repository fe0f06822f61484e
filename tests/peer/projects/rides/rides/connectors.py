from fennel.connectors import Kafka, Postgres, Webhook

app = Webhook(name="rides_app", retention="14d")
broker = Kafka(
    name="rides_broker",
    bootstrap_servers="broker.rides.example:9092",
    security_protocol="PLAINTEXT",
    sasl_mechanism="PLAIN",
    sasl_plain_username="rides",
    sasl_plain_password="secret",
)
database = Postgres.get(name="rides_database")
