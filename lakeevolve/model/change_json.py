"""Changes as JSON, without loss: ``{"change": "add-field", "path": "note", ...}``.

The keys are the attributes of the change; a default that is absent, and ``after`` without a value, are absent keys.
Types and fields are written as :mod:`lakeevolve.model.type_json` does.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any, Final, get_args

from lakeevolve.errors import PlanFormatError
from lakeevolve.model.change import (
    AddBranch,
    AddField,
    Change,
    ChangeLogicalType,
    DropBranch,
    DropField,
    PromoteType,
    ReorderBranches,
    ReorderSymbols,
    ReplaceType,
    SetAliases,
    SetDefault,
    SetProperties,
)
from lakeevolve.model.type_json import field_from_json, field_to_json, type_from_json, type_to_json
from lakeevolve.model.types import NO_DEFAULT, Json


def change_name(change: Change | type[Change]) -> str:
    """The name of a change in JSON and in text: ``add-field`` for ``AddField``."""
    kind = change if isinstance(change, type) else type(change)
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "-", kind.__name__).lower()


_CLASSES: Final[Mapping[str, type[Change]]] = {change_name(kind): kind for kind in get_args(Change)}

_Codec = tuple[Callable[[Any], Json], Callable[[Json], Any]]
_TYPE: Final[_Codec] = (type_to_json, type_from_json)
_FIELD: Final[_Codec] = (field_to_json, field_from_json)
_LIST: Final[_Codec] = (list, tuple)
_OBJECT: Final[_Codec] = (dict, dict)

#: How the attributes are written that are not JSON already.
_CODECS: Final[Mapping[tuple[type[Change], str], _Codec]] = {
    **{(kind, "field"): _FIELD for kind in (AddField, DropField)},
    **{(kind, "branch"): _TYPE for kind in (AddBranch, DropBranch)},
    **{(kind, side): _TYPE for kind in (PromoteType, ChangeLogicalType, ReplaceType) for side in ("old", "new")},
    **{(kind, side): _LIST for kind in (ReorderSymbols, SetAliases) for side in ("old", "new")},
    **{(SetProperties, side): _OBJECT for side in ("old", "new")},
    (ReorderBranches, "order"): _LIST,
}


def change_to_json(change: Change) -> dict[str, Json]:
    """One change as a JSON object.

    >>> from lakeevolve.model.change import RenameField
    >>> change_to_json(RenameField("address.zip", "postcode"))
    {'change': 'rename-field', 'path': 'address.zip', 'name': 'postcode', 'via': 'alias'}
    """
    kind = type(change)
    found: dict[str, Json] = {"change": change_name(change)}
    for attribute in fields(change):
        value = getattr(change, attribute.name)
        if value is NO_DEFAULT or (attribute.name == "after" and value is None):
            continue
        codec = _CODECS.get((kind, attribute.name))
        found[attribute.name] = value if codec is None else codec[0](value)
    return found


def change_from_json(record: Mapping[str, Json]) -> Change:
    """The inverse of :func:`change_to_json`.

    Raises ``PlanFormatError`` where the object is no change.

    >>> change_from_json({"change": "rename-field", "path": "zip", "name": "postcode", "via": "alias"})
    RenameField(path='zip', name='postcode', via='alias')
    """
    try:
        kind = _CLASSES[record["change"]]
        names = {attribute.name for attribute in fields(kind)}
        if unknown := record.keys() - names - {"change"}:
            raise ValueError(f"unknown keys {sorted(unknown)}")
        values: dict[str, Any] = {}
        for name in names:
            if kind is SetDefault and name not in record:
                values[name] = NO_DEFAULT
            elif name in record:
                codec = _CODECS.get((kind, name))
                values[name] = record[name] if codec is None else codec[1](record[name])
        return kind(**values)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise PlanFormatError(
            "an object in the file is not a change", hint="make the plan again; a plan is never edited by hand"
        ) from error
