"""For each mistake an author can make a file that makes it and no other.

The line with `# here` is the one that must be named.
"""

HEAD = """
from datetime import datetime
from typing import List, Optional
from narthex.connectors import Kafka, S3, Sample, Webhook, sink, source
from narthex.datasets import Count, Sum, dataset, field, pipeline
from narthex.dtypes import Continuous, between, struct
from narthex.expr import col, lit, when
from narthex.featuresets import extractor, feature, featureset
from narthex.lib import expect_column_values_to_be_between, expectations, inputs, meta, outputs

__owner__ = "a@b.co"
ORDERS = Webhook("w").endpoint("orders")
OTHERS = Webhook("w").endpoint("others")
READINGS = S3("far", role_arn="arn:aws:iam::1:role/reader").bucket("far", prefix="readings")

@source(ORDERS, disorder="1h", cdc="append")
@dataset
class Orders:
    uid: int
    amount: float
    at: datetime

@source(Webhook("w").endpoint("users"), disorder="1h", cdc="upsert")
@dataset(index=True)
class Users:
    uid: int = field(key=True)
    age: int
    at: datetime
"""


def _declared(member: str) -> str:
    return f"""
@dataset
class D:
    {member}
    at: datetime
"""


def _sourced(call: str) -> str:
    return f"""
@source({call})  # here
@dataset
class D:
    uid: int
    at: datetime
"""


def _piped(step: str) -> str:
    return f"""
@dataset
class D:
    uid: int
    amount: float
    at: datetime

    @pipeline
    @inputs(Orders, Users)
    def made(cls, orders, users):
        return {step}  # here
"""


def _summed(aggregate: str) -> str:
    return f"""
@dataset
class D:
    uid: int = field(key=True)
    n: int
    at: datetime

    @pipeline
    @inputs(Orders)
    def made(cls, orders):
        return orders.groupby("uid").aggregate({aggregate})  # here
"""


def _featured(body: str) -> str:
    return f"""
@featureset
class F:
    uid: int
    {body}
"""


FILES: dict[str, str] = {
    "NX101": _declared("fields: int  # here"),
    "NX102": _sourced('OTHERS, disorder="soon", cdc="append"'),
    "NX103": _declared("v: set  # here"),
    "NX104": _declared("v: between(int, 9, 0)  # here"),
    "NX105": """
@struct
class S:
    a: int = 3  # here
""",
    "NX106": '\n@meta(owner="me")  # here' + _declared("v: int"),
    "NX107": """
@dataset(version=0)
class D:  # here
    at: datetime
""",
    "NX108": _sourced('OTHERS, disorder="1h", cdc="append", env=["a", "~b"]'),
    "NX110": """
@dataset
class D:  # here
    v: int
""",
    "NX111": _declared("k: Optional[int] = field(key=True)  # here"),
    "NX112": """
@dataset(index=True)
class D:  # here
    at: datetime
""",
    "NX114": """
@dataset(history="1d")
class D:  # here
    v: int
    at: datetime
""",
    "NX113": _declared("k: int = field(erase_key=True)  # here"),
    "NX120": """
@dataset
class D:
    v: int
    at: datetime

    @expectations
    def kept(cls):
        return [expect_column_values_to_be_between(column="vv", min_value=0, max_value=1)]  # here
""",
    "NX201": """
@dataset
class D:
    uid: int
    at: datetime

    @pipeline  # here
    @inputs(Orders)
    def made(cls, orders):
        return 3
""",
    "NX202": _piped('orders.select("uid", "amuont")'),
    "NX203": _piped('orders.rename({"amount": "uid"})'),
    "NX204": _piped('orders.drop("at")'),
    "NX205": _piped('orders.dropnull("amount")'),
    "NX206": _piped('orders.join(users, how="left", on=["amount"])'),
    "NX207": _piped('orders.drop("amount")')
    .replace("    @pipeline", "    @pipeline  # here")
    .replace(")  # here\n", ")\n"),
    "NX208": _summed('n=Count(window=Continuous("1h"))').replace("  # here", "")
    + """
@dataset
class E:
    uid: int = field(key=True)
    n: int
    at: datetime

    @pipeline  # here
    @inputs(D)
    def again(cls, found):
        return found.filter(col("n") > 1)
""",
    "NX301": _summed("n=3"),
    "NX302": _summed('n=Count(window=Continuous("0s"))'),
    "NX401": _piped('orders.filter(col("amount"))'),
    "NX402": _piped('orders.filter(col("amount") > [object()])'),
    "NX501": _sourced('OTHERS, disorder="1h", cdc="append", sample="much"'),
    "NX502": _sourced('OTHERS, disorder="1h", cdc="append", preproc={"nothing": 3}'),
    "NX503": '\nKafka("bus", "b:9092", sasl_plain_password="hunter2").topic("t")  # here\n',
    "NX504": _sourced('Webhook("v"), disorder="1h", cdc="append"'),
    "NX505": """
@sink(Kafka("bus", "b:9092").topic("t"), cdc="debezium", how="much")  # here
"""
    + _piped("orders").replace("  # here", "").lstrip(),
    "NX506": _sourced(
        'Kafka("bus", "b:9092").topic("__consumer_offsets"), disorder="1h", cdc="append"'
    ),
    "NX601": _featured("v: int = feature(default=1)  # here"),
    "NX602": _featured(
        """v: int

    @extractor  # here
    @inputs("uid")
    @outputs("v")
    def made(cls, ts):
        return ts"""
    ),
    "NX603": _featured(
        """v: int = feature(col("uid") + 1)

    @extractor  # here
    @inputs("uid")
    @outputs("v")
    def made(cls, ts, uid):
        return uid"""
    ),
    "NX701": _piped("orders.filter(len)"),
    "NX702": _piped("orders.filter(lambda df: open('x') == df['uid'])"),
    "NX703": "\nBUILT = object()  # here\n"
    + _piped("orders.filter(lambda df: df['uid'] == BUILT)").replace("  # here", ""),
    "NX705": "\nfrom narthex.lib import data_file\n\nWORDS = data_file('absent.txt')  # here\n",
    "NX801": _piped("orders.select('uid', 'amount')")
    .replace("  # here", "")
    .replace("    @pipeline", "    @pipeline  # here")
    + "\ndel Orders\n",
    "NX802": _declared("v: int").replace("D:", "D:  # here")
    + "\nFirst = D\n"
    + _declared("v: int"),
    "NX803": _featured(
        'v: int = feature(col("w") + 1)  # here\n    w: int = feature(col("v") + 1)'
    ),
    "NX804": '\n__owner__ = ""\n' + _declared("v: int").replace("D:", "D:  # here"),
    "NX805": """
@source(OTHERS, disorder="1h", cdc="append")
"""
    + _piped("orders").replace("  # here", "").replace("D:", "D:  # here").lstrip(),
    "NX806": _sourced('OTHERS, disorder="1h", cdc="upsert"'),
    "NX808": _piped("orders").replace("  # here", "")
    + """
    @pipeline  # here
    @inputs(Orders)
    def again(cls, orders):
        return orders
""",
    "NX809": _featured("age: int = feature(Bare.age, default=0)  # here").join(
        [
            """
@source(OTHERS, disorder="1h", cdc="upsert")
@dataset
class Bare:
    uid: int = field(key=True)
    age: int
    at: datetime
""",
            "",
        ]
    ),
    "NX901": _sourced('READINGS, disorder="1h", cdc="append"'),
}
"""By code, the text after the head of a file."""

HINTLESS = frozenset(
    {
        "NX102",
        "NX104",
        "NX107",
        "NX203",
        "NX204",
        "NX205",
        "NX207",
        "NX301",
        "NX302",
        "NX401",
        "NX502",
        "NX505",
        "NX602",
        "NX701",
        "NX802",
        "NX803",
    }
)
"""Errors whose message already contains the remedy."""

ELSEWHERE: dict[str, str] = {
    "NX508": "test_egress_checks::test_a_host_that_is_not_public_is_denied",
    "NX509": "test_egress_checks::test_secrets_of_sinks_are_bound_too",
    "NX604": "test_readplan::test_all_missing_inputs_are_reported_at_once",
    "NX704": "test_closure::test_code_that_was_tampered_with_is_refused",
    "NX706": "test_requirement_locks::test_every_mistake_of_a_lock_is_reported_at_its_line",
    "NX807": "test_changes::test_a_changed_pipeline_without_a_higher_version_is_reported",
    "NX810": "test_wire::test_a_commit_of_another_version_is_refused",
    "NX811": "test_fennel_commits::test_everything_that_cannot_be_translated_is_refused_together",
    "NX951": "test_client::test_an_absent_server_is_reported",
    "NX952": "test_client::test_refused_rows_are_an_error_that_names_them",
    "NX953": "test_client::test_a_commit_that_ends_otherwise_is_an_error",
    "NX954": "test_client_commands::test_an_unreadable_file_is_reported_with_its_line",
    "NX955": "test_client::test_questions_that_do_not_fit_are_refused_here",
    "NX956": "test_client::test_an_invalid_answer_is_reported",
    "NX957": "test_compat::test_a_fennel_that_is_installed_is_not_hidden_silently",
    "NX958": "test_client::test_rows_are_awaited_no_longer_than_asked",
    "NX971": "test_workers::test_an_error_names_the_authors_line",
    "NX972": "test_lib::test_secrets_are_handed_out_only_where_somebody_does",
    "NX507": "test_policy_checks::test_names_without_a_grant_are_refused_with_the_rule_to_request",
    "NX973": "test_policy::test_a_mistake_is_named",
    "NX974": "test_egress_checks::test_a_job_reports_the_missing_rule",
    "NX975": "test_egress_checks::test_a_job_reports_the_missing_rule",
    "NX977": "test_online_queries::test_a_lookup_before_what_the_index_has_is_refused",
    "NX976": "test_workers::test_no_row_fails_because_no_worker_can_be_started",
}
"""By code, the test that provokes what no file alone can."""
