"""A plan that is applied when somebody says so in Airflow's own interface."""

from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk import DAG

from lakeevolve.airflow import LakeEvolveApplyOperator, LakeEvolvePlanOperator

with DAG("asked", schedule=None):
    plan = LakeEvolvePlanOperator(task_id="plan", table="delta:lake/orders", target="orders.avsc")
    ask = ApprovalOperator(
        task_id="ask",
        subject="Apply the plan for {{ ti.xcom_pull('plan')['table'] }}?",
        body="{{ ti.xcom_pull('plan') }}",
    )
    apply = LakeEvolveApplyOperator(task_id="apply", plan=plan.output, allow=["rewrite", "backfill"])
    plan >> ask >> apply
