"""Maps that have a key more than once."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc


def last_of_each(offsets: pa.Array, keys: pa.Array, values: pa.Array) -> tuple[pa.Array, pa.Array, pa.Array]:
    """Maps in which each key has the value that stood last for it, as Avro's own readers have them.

    Parameters
    ----------
    offsets:
        Where each map begins and the last one ends, int64.
    keys, values:
        Of all maps, one behind the other; no key is null.
    """
    words = keys.dictionary_encode()
    if len(words.dictionary) == len(keys):
        return offsets, keys, values
    maps = pc.list_parent_indices(pa.LargeListArray.from_arrays(offsets, words.indices))
    each = pc.add(pc.multiply(maps, len(words.dictionary)), words.indices.cast(pa.int64()))
    if pc.count_distinct(each).as_py() == len(each):
        return offsets, keys, values
    places = (
        pa.table({"each": each, "at": pa.array(range(len(each)), pa.int64())})
        .group_by("each")
        .aggregate([("at", "max")])
    )
    kept = pc.is_in(pa.array(range(len(each)), pa.int64()), value_set=places["at_max"].combine_chunks())
    before = pa.concat_arrays([pa.array([0], pa.int64()), pc.cumulative_sum(kept.cast(pa.int64()))])
    return before.take(offsets), keys.filter(kept), values.filter(kept)
