"""Every Iceberg table of a project, each by itself: one mapped group of tasks per table.

The catalog is the Airflow connection iceberg_default. A table whose plan is refused fails alone.
"""

from datetime import timedelta

from airflow.sdk import DAG, task, task_group

from lakeevolve.airflow import (
    LakeEvolveApplyOperator,
    LakeEvolveCheckOperator,
    LakeEvolvePlanOperator,
    LakeEvolveVerifyOperator,
    project_tables,
)

with DAG(
    "evolve_lake",
    schedule=None,
    params={"config": "lakeevolve.yaml"},
    default_args={"retries": 3, "retry_delay": timedelta(minutes=5)},
):
    place = {"config": "{{ params.config }}", "conn_id": "iceberg_default"}

    @task_group
    def evolve(table):
        plan = LakeEvolvePlanOperator(task_id="plan", table=table, **place)
        apply = LakeEvolveApplyOperator(task_id="apply", plan=plan.output, allow=["rewrite", "backfill"], **place)
        verify = LakeEvolveVerifyOperator(task_id="verify", table=table, **place)
        plan >> apply >> verify

    check = LakeEvolveCheckOperator(task_id="check", **place)
    tables = task(task_id="tables")(project_tables)("{{ params.config }}")
    check >> evolve.expand(table=tables)
