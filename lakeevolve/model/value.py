"""Equality, hash and text of small frozen dataclasses, without compiling them class by class.

``dataclass`` writes these methods as source text and compiles them while a module is loaded. For modules that hold
dozens of classes this is most of what a short command waits for.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from operator import attrgetter
from typing import Any, TypeVar

_T = TypeVar("_T")


def value(cls: type[_T]) -> type[_T]:
    """Complete a dataclass that was made with ``frozen=True, slots=True, eq=False, repr=False``.

    Equal are objects of one class whose fields are equal, as ``dataclass`` itself would have it; fields with
    ``compare=False`` do not count, and those with ``hash=False`` not for the hash.

    >>> from dataclasses import dataclass
    >>> @value
    ... @dataclass(frozen=True, slots=True, eq=False, repr=False)
    ... class Point:
    ...     x: int
    ...     y: int
    >>> Point(1, 2) == Point(1, 2), Point(1, 2) == (1, 2), Point(1, 2)
    (True, False, Point(x=1, y=2))
    """
    known: Any = fields(cls)  # type: ignore[arg-type]
    told = tuple(field.name for field in known if field.repr)
    content = _getter([field.name for field in known if field.compare])
    hashable = _getter([field.name for field in known if (field.compare if field.hash is None else field.hash)])

    def equals(self: object, other: object) -> Any:
        return content(self) == content(other) if other.__class__ is self.__class__ else NotImplemented

    def hashed(self: object) -> int:
        return hash(hashable(self))

    def text(self: object) -> str:
        return f"{cls.__qualname__}({', '.join(f'{name}={getattr(self, name)!r}' for name in told)})"

    for name, method in (("__eq__", equals), ("__hash__", hashed), ("__repr__", text)):
        method.__name__, method.__qualname__ = name, f"{cls.__qualname__}.{name}"
        setattr(cls, name, method)
    return cls


def _getter(names: list[str]) -> Callable[[object], Any]:
    """A function that gives the fields as a tuple."""
    if len(names) > 1:
        return attrgetter(*names)
    if names:
        (name,) = names
        return lambda self: (getattr(self, name),)
    return lambda _: ()
