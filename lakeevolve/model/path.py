"""Where in a schema something stands.

A path is plain text: ``address.zip`` (field of a record), ``tags[]`` (the items of an array), ``prices{}`` (the
values of a map), ``payload<Ping>.at`` (a branch of a real union). ``["null", T]`` adds nothing to a path. The
root is the empty text. A name that is not an Avro name (only tables have those) stands in backticks.
"""

from __future__ import annotations

import re
from typing import Final

ROOT: Final = ""
#: A name that Avro allows (Avro 1.12, "Names"), without a namespace.
AVRO_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
ITEMS: Final = "[]"
VALUES: Final = "{}"

_SEGMENT = re.compile(r"\[\]|\{\}|<([^>]*)>|\.?`((?:[^`]|``)*)`|\.?([^.\[\]{}<>`]+)")
_PLAIN = re.compile(r"[^.\[\]{}<>`\s]+\Z")


def is_avro_name(name: str) -> bool:
    """Whether strict parsing takes a name for one of Avro's.

    >>> is_avro_name("a_b"), is_avro_name("a-b"), is_avro_name("1x")
    (True, False, False)
    """
    return AVRO_NAME.match(name) is not None


def child(parent: str, name: str) -> str:
    """The path of the field *name* of the record at *parent*."""
    text = name if _PLAIN.match(name) else "`" + name.replace("`", "``") + "`"
    return f"{parent}.{text}" if parent else text


def items(parent: str) -> str:
    return parent + ITEMS


def values(parent: str) -> str:
    return parent + VALUES


def branch(parent: str, name: str) -> str:
    return f"{parent}<{name}>"


def parts(path: str) -> tuple[str, ...]:
    """The segments of a path: field names as they are, ``[]``, ``{}`` and ``<branch>``.

    >>> parts("lines[].tax{}.rate")
    ('lines', '[]', 'tax', '{}', 'rate')
    """
    found: list[str] = []
    at = 0
    while at < len(path):
        match = _SEGMENT.match(path, at)
        if match is None:
            raise ValueError(f"not a path: {path!r}")
        text = match.group(0)
        if match.group(2) is not None:
            found.append(match.group(2).replace("``", "`"))
        elif match.group(3) is not None:
            found.append(match.group(3))
        else:
            found.append(text)
        at = match.end()
    return tuple(found)


def parent(path: str) -> str:
    """The path one segment up; the root's parent is the root."""
    segments = parts(path)
    return join(segments[:-1])


def leaf(path: str) -> str:
    """The last segment, or the empty text for the root."""
    segments = parts(path)
    return segments[-1] if segments else ""


def join(segments: tuple[str, ...]) -> str:
    """The inverse of :func:`parts`."""
    text = ROOT
    for segment in segments:
        if segment in (ITEMS, VALUES) or (segment.startswith("<") and segment.endswith(">")):
            text += segment
        else:
            text = child(text, segment)
    return text


def within(path: str, ancestor: str) -> bool:
    """Whether *path* is *ancestor* or lies beneath it."""
    above = parts(ancestor)
    return parts(path)[: len(above)] == above
