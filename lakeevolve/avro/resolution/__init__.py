"""Matching what was written with how it is read: the Avro rule and everything that follows from it."""

from lakeevolve.avro.resolution.explain import Action, Explanation
from lakeevolve.avro.resolution.resolution import Resolution, resolve

__all__ = ["Action", "Explanation", "Resolution", "resolve"]
