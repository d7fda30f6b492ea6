"""A verification that is deferred to a Dask cluster."""

from airflow.sdk import DAG

from lakeevolve.airflow import LakeEvolveVerifyOperator

with DAG("verify_elsewhere", schedule=None, params={"table": "", "engine": ""}):
    LakeEvolveVerifyOperator(
        task_id="verify", table="{{ params.table }}", engine="{{ params.engine }}", deferrable=True, retries=1
    )
