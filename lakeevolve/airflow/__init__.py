"""lakeevolve in Apache Airflow: operators, plain functions for ``@task``, and the provider's metadata.

Airflow is loaded when an operator is asked for, and the libraries of tables when a task runs, so a DAG file that
imports from here is parsed as fast as one that does not.

>>> from lakeevolve.airflow import has_changes
>>> has_changes({"plan": "0" * 64, "plan_path": "plan.json", "table": "delta:lake/orders", "empty": True})
False
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from lakeevolve.airflow.between import has_changes, is_approved, project_tables
from lakeevolve.airflow.tasks import apply_plan, check_schema, plan_table, verify_table

if TYPE_CHECKING:
    from lakeevolve.airflow.operators import (
        LakeEvolveApplyOperator,
        LakeEvolveCheckOperator,
        LakeEvolvePlanOperator,
        LakeEvolveVerifyOperator,
    )

_OPERATORS = "lakeevolve.airflow.operators"

__all__ = [
    "LakeEvolveApplyOperator",
    "LakeEvolveCheckOperator",
    "LakeEvolvePlanOperator",
    "LakeEvolveVerifyOperator",
    "apply_plan",
    "check_schema",
    "has_changes",
    "is_approved",
    "plan_table",
    "project_tables",
    "verify_table",
]


def __getattr__(name: str) -> Any:
    if name in __all__:
        return getattr(importlib.import_module(_OPERATORS), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
