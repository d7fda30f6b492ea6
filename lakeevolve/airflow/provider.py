"""What Airflow is told of lakeevolve: the entry point ``apache_airflow_provider``."""

from __future__ import annotations

from typing import Any

from lakeevolve._version import __version__


def get_provider_info() -> dict[str, Any]:
    """The provider's metadata, as Airflow's ``provider_info.schema.json`` has it."""
    return {
        "package-name": "lakeevolve",
        "name": "lakeevolve",
        "description": "Check, plan, apply and verify the evolution of Iceberg and Delta tables.",
        "versions": [__version__],
        "integrations": [{"integration-name": "lakeevolve", "tags": ["software"]}],
        "triggers": [{"integration-name": "lakeevolve", "python-modules": ["lakeevolve.airflow.triggers"]}],
        "operators": [{"integration-name": "lakeevolve", "python-modules": ["lakeevolve.airflow.operators"]}],
    }
