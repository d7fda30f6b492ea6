"""Schemas in few words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from lakeevolve.avro.parse import parse
from lakeevolve.model.schema import Schema


@pytest.fixture
def record() -> Callable[..., Schema]:
    """A record schema of fields as Avro JSON, or as (name, type) and (name, type, default)."""

    def make(*fields: Any, name: str = "Order", **more: Any) -> Schema:
        written = [
            field
            if isinstance(field, dict)
            else {"name": field[0], "type": field[1], **({"default": field[2]} if len(field) > 2 else {})}
            for field in fields
        ]
        return parse({"type": "record", "name": name, "fields": written, **more})

    return make
