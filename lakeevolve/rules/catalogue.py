"""Every rule, by id: what ``lakeevolve rules`` lists and ``lakeevolve explain`` explains."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from lakeevolve.rules import (
    contract,
    default,
    drift,
    enum,
    field,
    meaning,
    name,
    policy,
    registry,
    replay,
    rollout,
    route,
    schema,
    table,
    type,  # noqa: A004 - a family of rules, as its module is called
    union,
)
from lakeevolve.rules.rule import Rule

__all__ = ["RULES", "Rule"]

_FAMILIES: Final = (
    *(schema, field, type, enum, union, name, default, contract, meaning),
    *(policy, table, route, drift, rollout, replay, registry),
)

#: Rule id to rule, family by family.
RULES: Final[Mapping[str, Rule]] = MappingProxyType({rule.id: rule for family in _FAMILIES for rule in family.RULES})
