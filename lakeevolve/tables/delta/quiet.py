"""Loading delta-rs without the lines that it and its store clients log to standard error.

They stand between a user and the message, and may quote what a store or a proxy answered. delta-rs reads ``RUST_LOG``
once, when it is loaded: whoever sets it gets them.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import Final

_VARIABLE: Final = "RUST_LOG"


def load_quietly() -> None:
    """Load delta-rs, unless it is loaded; its log stays off unless the environment asks for it."""
    if "deltalake" in sys.modules or _VARIABLE in os.environ:
        return
    os.environ[_VARIABLE] = "off"
    try:
        import_module("deltalake")
    finally:
        del os.environ[_VARIABLE]
