"""Schemas in few words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from lakeevolve.avro.parse import parse
from lakeevolve.model.schema import Schema

Record = Callable[..., Schema]


def make_record(*fields: dict[str, Any] | tuple[Any, ...], name: str = "Order", **more: Any) -> Schema:
    """A record schema of fields as Avro JSON, or as (name, type) and (name, type, default)."""
    written = [
        field
        if isinstance(field, dict)
        else {"name": field[0], "type": field[1], **({"default": field[2]} if len(field) > 2 else {})}
        for field in fields
    ]
    return parse({"type": "record", "name": name, "fields": written, **more})


@pytest.fixture
def record() -> Record:
    return make_record
