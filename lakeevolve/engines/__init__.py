"""Who does the heavy work: one call that maps a function over a list, here or on a cluster.

An engine knows nothing of tables. It is handed a function and a list and gives back what came of each, in any order;
whoever asks merges that, so the result is the same on every engine. Only the process that asked commits anything.

===========================  ==========================================================================================
``local``, ``local://8``     threads of this process (Arrow's kernels and Parquet's coders run without Python's lock)
``processes://4``            processes of this machine; one that dies is replaced
``dask://HOST:PORT``         a Dask cluster, by its scheduler's address
``spark:MASTER``             a classic Spark session (``spark://HOST:7077``, ``spark:yarn``, ``spark:local[2,4]``)
``sc://HOST:PORT``           Spark Connect
===========================  ==========================================================================================

The API also takes an engine, a :class:`concurrent.futures.Executor`, or a Spark session.
"""

from lakeevolve.engines.opening import open_engine
from lakeevolve.engines.protocol import Engine

__all__ = ["Engine", "open_engine"]
