"""The name of a query on Spark's pages names its job, for people."""

from narthex._ir import DatasetRef, Trigger, WebhookEndpoint
from narthex_spark_apps.jobs.start import query_name
from tests.spark_apps import spark_jobs
from tests.spark_apps.supervision.runner.memory_job_carrier import assignment


def test_the_query_of_a_source_names_it() -> None:
    webhook = WebhookEndpoint(webhook="shop", endpoint="orders")
    asset = spark_jobs.source_job(webhook, needs=(), trigger=Trigger.STAGE).asset

    assert query_name(asset, kind="backfill", epoch=3) == (
        f"source webhook:shop/orders, backfill, epoch 3 ({asset.physical_name})"
    )


def test_the_query_of_a_pipeline_names_it() -> None:
    job = spark_jobs.pipeline_job(
        DatasetRef("Orders"),
        inputs=(),
        schema=spark_jobs.ORDERS,
        needs=(),
        trigger=Trigger.REAL_TIME,
    )

    name = f"{job.spec.dataset}.{job.spec.pipeline}"
    assert query_name(job.asset, kind="live", epoch=1) == (
        f"pipeline {name}, live, epoch 1 ({job.asset.physical_name})"
    )


def test_two_runs_of_a_job_have_two_names() -> None:
    asset = assignment(7).asset
    names = {
        query_name(asset, kind=kind, epoch=epoch)
        for kind in ("live", "backfill")
        for epoch in (1, 2)
    }

    assert len(names) == 4
    assert all(asset.physical_name in name for name in names)
