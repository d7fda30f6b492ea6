"""One Delta table: check the schema, plan, wait for an approval, apply, verify.

The steps are plain functions. Applying is an operator's, which stops between two files when its task is killed.
"""

from datetime import timedelta

from airflow.sdk import dag, task

from lakeevolve.airflow import (
    LakeEvolveApplyOperator,
    check_schema,
    has_changes,
    is_approved,
    plan_table,
    verify_table,
)


@dag(
    schedule=None,
    params={"table": "delta:lake/orders", "schema": "schemas/orders.avsc", "approvals": "approvals"},
    default_args={"retries": 3, "retry_delay": timedelta(minutes=5)},
)
def evolve_orders():
    table, schema, approvals = "{{ params.table }}", "{{ params.schema }}", "{{ params.approvals }}"

    checked = task(task_id="check")(check_schema)(schema, table=table)
    planned = task(task_id="plan")(plan_table)(table, schema)
    changes = task.short_circuit(task_id="changes")(has_changes)(planned)
    wait = task.sensor(task_id="approved", mode="reschedule", poke_interval=60, timeout=timedelta(days=7))
    approved = wait(is_approved)(planned, approvals)
    applied = LakeEvolveApplyOperator(task_id="apply", plan=planned, allow=["rewrite", "backfill"], approvals=approvals)
    verified = task(task_id="verify")(verify_table)(table)

    checked >> planned >> changes >> approved >> applied >> verified


evolve_orders()
