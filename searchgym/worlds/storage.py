"""The digest of a world, equal for equal worlds on every machine."""

from __future__ import annotations

import hashlib
import json

import numpy as np

from .loader import schema_to_dict
from .world import World

COLUMNS = (
    "type_of", "subject_of", "property_of", "object_of", "indptr", "inverse_order",
    "inverse_indptr", "facet_of",
)  # fmt: skip
TEXTS = ("titles", "names", "alias_of")


def world_digest(world: World) -> str:
    """SHA-256 (hex, 16 characters) over schema, columns and texts: equal worlds, equal digests.

    The schema's rules do not count: they change neither a fact nor a page.
    """
    h = hashlib.sha256()
    schema = {k: v for k, v in schema_to_dict(world.schema).items() if k != "rules"}
    h.update(json.dumps(schema, sort_keys=True).encode())
    h.update(str(world.seed).encode())
    for name in COLUMNS:
        column = getattr(world, name)
        # Byte order is fixed, so that the digest is the same on every machine.
        h.update(name.encode() + np.ascontiguousarray(column, column.dtype.newbyteorder("<")).data)
    for name in TEXTS:
        h.update(name.encode())
        for text in getattr(world, name):
            h.update(text.encode() + b"\n")
    return h.hexdigest()[:16]
