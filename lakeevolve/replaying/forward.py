"""Which older readers a compatibility mode promises that they can read rows as they are now."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from lakeevolve.errors import ConfigError
from lakeevolve.tables.base import Version

#: Of each mode: whether readers of the version before are promised anything, and whether those of all before are.
_PROMISES: Final = {
    "NONE": (False, False),
    "BACKWARD": (False, False),
    "BACKWARD_TRANSITIVE": (False, False),
    "FORWARD": (True, False),
    "FORWARD_TRANSITIVE": (True, True),
    "FULL": (True, False),
    "FULL_TRANSITIVE": (True, True),
}


def protected(mode: str | None, versions: Sequence[Version]) -> tuple[Version, ...]:
    """The versions, but the newest, whose readers a mode promises that they can read rows of the newest.

    Parameters
    ----------
    mode:
        One of the seven modes; None promises nothing.
    versions:
        The table's versions, oldest first.

    Raises ``ConfigError`` for another word.

    >>> protected("BACKWARD", ())
    ()
    """
    if mode is None:
        return ()
    name = mode.upper()
    if name not in _PROMISES:
        raise ConfigError(f"no compatibility mode is called {mode!r}", hint="modes are " + ", ".join(_PROMISES))
    forward, all_ = _PROMISES[name]
    if not forward:
        return ()
    return tuple(versions[:-1]) if all_ else tuple(versions[-2:-1])
