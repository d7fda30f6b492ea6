"""The demo: two sample tables in both formats, evolved through three versions and verified after each."""

from __future__ import annotations
