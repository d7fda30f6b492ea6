"""Hypothesis strategies for schemas, for what becomes of them, and for rows; for our tests and for yours.

Hypothesis is imported when a strategy is asked for: it belongs to the extra ``test``.

>>> from hypothesis import given, settings
>>> @settings(max_examples=5, derandomize=True)
... @given(evolutions())
... def diff_leads_from_one_to_the_other(pair):
...     old, new = pair
...     assert lakeevolve.apply_changes(lakeevolve.diff(old, new).changes, old) == new
>>> import lakeevolve
>>> diff_leads_from_one_to_the_other()
"""

from __future__ import annotations

from lakeevolve.testing.edits import evolutions
from lakeevolve.testing.rows import rows
from lakeevolve.testing.schemas import schemas

__all__ = ["evolutions", "rows", "schemas"]
