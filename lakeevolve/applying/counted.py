"""Numbers of files that know their bytes: what progress is told in."""

from __future__ import annotations


class Files(int):
    """A number of files, and how many stored bytes they have.

    >>> done = Files(2, 1000)
    >>> done == 2, done.bytes
    (True, 1000)
    """

    bytes: int

    def __new__(cls, number: int, stored: int) -> Files:
        made = super().__new__(cls, number)
        made.bytes = stored
        return made
