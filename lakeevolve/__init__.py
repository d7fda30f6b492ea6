"""lakeevolve: evolve Iceberg and Delta tables the way Avro says a schema may evolve, and prove it value by value.

>>> import lakeevolve as le
>>> old = le.load({"type": "record", "name": "R", "fields": [{"name": "id", "type": "int"}]})
>>> new = le.load({"type": "record", "name": "R", "fields": [{"name": "id", "type": "long"}]})
>>> le.check(new, [old], mode="BACKWARD").compatible
True
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from lakeevolve import errors
from lakeevolve._api import (
    adopt,
    apply,
    apply_changes,
    arrow_schema,
    check,
    describe,
    diff,
    fill_defaults,
    lineage,
    load,
    load_plan,
    open_table,
    plan,
    read_avro,
    rebase,
    replay,
    resolve,
    revert,
    rollback,
    verify,
)
from lakeevolve._version import __version__
from lakeevolve.errors import LakeEvolveError

if TYPE_CHECKING:
    from lakeevolve.model.schema import Schema
    from lakeevolve.planning.plan import Plan
    from lakeevolve.rules.policy import Policy, Waiver

#: Types that are public by name and loaded when first asked for.
_LAZY = {
    "Schema": "lakeevolve.model.schema",
    "Plan": "lakeevolve.planning.plan",
    "Policy": "lakeevolve.rules.policy",
    "Waiver": "lakeevolve.rules.policy",
}

__all__ = [
    "LakeEvolveError",
    "Plan",
    "Policy",
    "Schema",
    "Waiver",
    "__version__",
    "adopt",
    "apply",
    "apply_changes",
    "arrow_schema",
    "check",
    "describe",
    "diff",
    "errors",
    "fill_defaults",
    "lineage",
    "load",
    "load_plan",
    "open_table",
    "plan",
    "read_avro",
    "rebase",
    "replay",
    "resolve",
    "revert",
    "rollback",
    "verify",
]


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(importlib.import_module(_LAZY[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
