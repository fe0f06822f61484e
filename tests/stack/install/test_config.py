import datetime as dt
import re
import stat
from pathlib import Path

import attrs
import pytest

from narthex._analysis.policy.policy import Policy, load_policy
from narthex.settings import Settings, load_settings
from narthex_server.alerts.configuration import load_alerts_file
from narthex_spark_apps.cli.supervisor_process import run_dir
from narthex_stack.errors import BadConfigError
from narthex_stack.install.config import FIELDS, parse_config
from narthex_stack.install.credentials import ensure_credentials
from narthex_stack.install.installation import load_installation
from narthex_stack.install.layout import HomeLayout
from narthex_stack.install.operator_files import ALERTS, POLICY
from narthex_stack.local_services.groups import GROUPS, OPTIONAL_GROUPS, parse_groups
from narthex_stack.local_services.service_plan import (
    externals,
    services,
)


def test_a_variable_wins_over_the_file() -> None:
    config = parse_config('kafka = "file:9092"', {"NARTHEX_KAFKA": "variable:9092"})

    assert config.kafka == "variable:9092"


def test_an_empty_variable_is_ignored() -> None:
    config = parse_config('kafka = "file:9092"', {"NARTHEX_KAFKA": ""})

    assert config.kafka == "file:9092"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('kafca = "x"', "`kafca`"),
        ("kafka = 9092", "must be a text"),
        ("kafka =", "not TOML"),
        ('server_url = "http://elsewhere"', "without `token`"),
        ('airflow_url = "http://elsewhere"', "without `airflow_password`"),
        ('spark_ui_port = "many"', "`spark_ui_port` is `many`"),
        ('partitions = "0"', "`partitions` is `0`; it may be 1 to 1024"),
        ('partitions = "1025"', "`partitions` is `1025`; it may be 1 to 1024"),
        ('log_format = "xml"', "`log_format` is `xml`; it may be `lines` or `json`"),
        ('snapshots_kept = "few"', "`snapshots_kept` is `few`, which is not a number"),
        ('metrics_kept_days = "31"', "`metrics_kept_days` is `31`; it may be 0 to 30"),
        ('metrics_kept_days = "x"', "`metrics_kept_days` is `x`; it may be 0 to 30"),
        ('snapshot_every_s = "-1"', "`snapshot_every_s` is `-1`, which is not a number"),
        ('supervisors = "many"', "`supervisors` is `many`"),
        ('reads = "0"', "`reads` is `0`; it may be 1 to 9"),
        ('index_store = "http://there"', "`index_store`: `http://there` is not"),
        ('index_store = "redis://there"\nindex_dir = "/here"', "in one of them"),
        ('index_store_password = "p"', "without `index_store`"),
        ('kafka_user = "u"', "without its address, `kafka`"),
        ('kafka = "k:1"\nkafka_user = "u"', "given together"),
        ('kafka = "k:1"\nkafka_mechanism = "GSSAPI"', "may be PLAIN, SCRAM-SHA-256"),
        ('kafka = "k:1"\nkafka_tls = "yes"', "it may be `on`"),
    ],
)
def test_invalid_settings_are_refused_by_name(text: str, said: str) -> None:
    with pytest.raises(BadConfigError, match=re.escape(said)):
        parse_config(text, {})


def test_a_service_with_an_address_is_not_started(tmp_path: Path) -> None:
    layout = HomeLayout(tmp_path)
    layout.make()
    layout.config.write_text(
        'kafka = "broker:9092"\nserver_url = "http://there:1"\ntoken = "t"\n'
        'ledger_dsn = "postgresql+psycopg2://me:hidden@db:5432/n"\n'
        'airflow_url = "http://flow"\nairflow_password = "p"\n'
    )

    installation = load_installation(layout, environment={})

    assert [service.name for service in services(installation, GROUPS)] == ["supervisor"]
    assert {each.group: each.address for each in externals(installation.config)} == {
        "postgres": "db:5432/n",
        "kafka": "broker:9092",
        "airflow": "http://flow",
        "server": "http://there:1",
    }


def test_the_configured_number_of_partitions_reaches_the_services(tmp_path: Path) -> None:
    default = load_installation(HomeLayout(tmp_path / "one"), environment={})
    named = load_installation(
        HomeLayout(tmp_path / "two"), environment={"NARTHEX_PARTITIONS": "16"}
    )

    assert (default.settings.partitions, named.settings.partitions) == (2, 16)


DECIDED = {"home", "install_id", "jars_dir", "reads_url"}
"""The settings that `narthex up` decides itself."""

OTHER_VALUES = {
    "control_log_heads": "/elsewhere/heads",
    "driver_backfill_rows": 7,
    "log_format": "json",
    "most_branches": 11,
    "most_definitions": 12,
    "metrics_kept_days": 7,
    "offline_queries_at_once": 3,
    "offline_queries_per_token": 5,
    "offline_query_greatest_s": 60.5,
    "reads_greatest_age_s": 60.5,
    "reads_greatest_values": 9,
    "run_job": "/elsewhere/run_job.py",
    "snapshot_every_s": 12.5,
    "snapshots_kept": 5,
}


def test_every_setting_can_be_configured() -> None:
    assert {field.name for field in attrs.fields(Settings)} - set(FIELDS) == DECIDED


@pytest.mark.parametrize("name", OTHER_VALUES)
def test_a_variable_of_up_reaches_the_services(name: str, tmp_path: Path) -> None:
    value = OTHER_VALUES[name]
    variable = {f"NARTHEX_{name.upper()}": str(value)}

    default = load_installation(HomeLayout(tmp_path / "one"), environment={})
    named = load_installation(HomeLayout(tmp_path / "two"), environment=variable)

    assert getattr(default.settings, name) != value
    assert getattr(named.settings, name) == value


def test_several_supervisors_have_names_and_heartbeats_of_their_own(tmp_path: Path) -> None:
    layout = HomeLayout(tmp_path)
    layout.make()
    layout.config.write_text('supervisors = "2"')

    installation = load_installation(layout, environment={})

    first, second = services(installation, ("supervisor",))[-2:]
    assert (first.name, second.name) == ("supervisor", "supervisor-2")
    assert first.command[-1] == "supervisor"
    assert second.command[-2:] == ("--name", "supervisor-2")
    for service in (first, second):
        directory = run_dir(tmp_path, service.name)
        directory.mkdir(exist_ok=True)
        assert service.probe() == "it has not written its first heartbeat"
        (directory / "supervisor.heartbeat").touch()
        assert service.probe() is None


def test_read_processes_share_an_address_and_start_after_the_server(tmp_path: Path) -> None:
    layout = HomeLayout(tmp_path)
    layout.make()
    layout.config.write_text('reads = "2"')

    installation = load_installation(layout, environment={})

    *_, first, second = services(installation, ("reads",))
    assert (first.name, second.name) == ("reads", "reads-2")
    assert first.needs == second.needs == ("postgres", "kafka", "server")
    address = first.environment["NARTHEX_READS_URL"]
    assert address == second.environment["NARTHEX_READS_URL"] == installation.settings.reads_url
    assert address != installation.settings.server_url


def test_an_index_store_reaches_what_reads_and_writes_indexes_without_its_password(
    tmp_path: Path,
) -> None:
    layout = HomeLayout(tmp_path)
    layout.make()
    layout.config.write_text('index_store = "redis://there:1"\nindex_store_password = "hidden"\n')

    installation = load_installation(layout, environment={})

    (external,) = externals(installation.config)
    assert (external.group, external.address) == ("index store", "redis://there:1")
    assert "hidden" not in repr(installation.config) + repr(installation.settings)
    started = {one.name: one.environment for one in services(installation, GROUPS)}
    for name in ("server", "supervisor"):
        assert started[name]["NARTHEX_INDEX_STORE"] == "redis://there:1"
        assert started[name]["NARTHEX_INDEX_STORE_PASSWORD"] == "hidden"
    for name in started.keys() - {"server", "supervisor"}:
        assert "hidden" not in started[name].values()


def test_an_airflow_of_ours_keeps_postgres_here_though_the_ledger_is_elsewhere() -> None:
    config = parse_config('ledger_dsn = "postgresql+psycopg2://me:x@db/n"', {})

    assert "postgres" not in {each.group for each in externals(config)}


def test_only_brings_what_the_named_ones_need() -> None:
    assert parse_groups("kafka, postgres") == ("postgres", "kafka")
    with pytest.raises(BadConfigError, match="`kafak`"):
        parse_groups("kafak")


def test_the_settings_are_written_for_its_own_account_only(tmp_path: Path) -> None:
    layout = HomeLayout(tmp_path)

    installation = load_installation(layout, environment={}, files_root=tmp_path)

    assert load_settings({"NARTHEX_HOME": str(tmp_path)}) == installation.settings
    for path in (layout.services, layout.secrets):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert "airflow_password=" not in repr(installation.settings)


def test_an_installation_begins_with_a_policy_without_rules_and_keeps_its_own(
    tmp_path: Path,
) -> None:
    layout = HomeLayout(tmp_path)
    installation = load_installation(layout, environment={}, files_root=tmp_path)
    first = load_policy(installation.settings.policy_file)
    (tmp_path / "policy.toml").write_text("[egress]\nallow = []\n")

    load_installation(layout, environment={}, files_root=tmp_path)

    assert first == Policy()
    assert (tmp_path / "policy.toml").read_text() == "[egress]\nallow = []\n"


def test_every_commented_rule_is_one_that_the_file_takes() -> None:
    rules = [line.removeprefix("# ") for line in POLICY.splitlines()[3:]]

    policy = Policy.parse("\n".join(rules))

    assert all((policy.files, policy.endpoints, policy.topics, policy.secrets, policy.egress.allow))


def test_every_commented_receiver_and_rule_is_one_that_the_alerts_file_takes(
    tmp_path: Path,
) -> None:
    path = tmp_path / "alerts.toml"
    path.write_text("\n".join(line.removeprefix("# ") for line in ALERTS.splitlines()[3:]))

    found = load_alerts_file(path)

    assert [receiver.kind for receiver in found.receivers] == ["slack", "email"]
    assert found.rules.freshness.max_age == dt.timedelta(days=1)
    assert found.rules.lag.branches == ["main"]


def test_secrets_are_drawn_once(tmp_path: Path) -> None:
    first = ensure_credentials(tmp_path / "secrets.json")

    second = ensure_credentials(tmp_path / "secrets.json")

    assert first == second
    assert re.fullmatch("[a-z0-9]{8}", first.install_id)
    assert first.token not in repr(first)


def test_airflow_gets_its_own_token_and_neither_the_platforms_nor_the_ledger(
    tmp_path: Path,
) -> None:
    installation = load_installation(HomeLayout(tmp_path), environment={})
    settings, keys = installation.settings, installation.credentials

    given = {
        value
        for service in services(installation, ("airflow",))
        if service.group == "airflow"
        for value in service.environment.values()
    }

    assert settings.dags_token in given
    assert settings.dags_token not in {"", settings.token}
    assert not given & {settings.token, settings.ledger_dsn, keys.ledger_password}
    assert not given & {settings.airflow_password, keys.op_password}
    assert not [value for value in given if keys.ledger_password in value]


def test_a_platform_without_read_processes_starts_none(tmp_path: Path) -> None:
    installation = load_installation(HomeLayout(tmp_path), environment={})

    assert "reads" not in {service.group for service in services(installation, GROUPS)}
    assert installation.settings.reads_url == ""
    assert "reads" in OPTIONAL_GROUPS


def test_the_scheduler_and_the_triggerer_start_after_the_api_server(tmp_path: Path) -> None:
    layout = HomeLayout(tmp_path)
    layout.make()

    found = {
        each.name: each.needs
        for each in services(load_installation(layout, environment={}), ("airflow",))
    }

    assert found["airflow-api-server"] == found["airflow-dag-processor"] == ("postgres",)
    assert found["airflow-scheduler"] == ("postgres", "airflow-api-server")
    assert found["airflow-triggerer"] == ("postgres", "airflow-api-server")
