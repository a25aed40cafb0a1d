"""Parts of a reward from a record, which may name what is registered and nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ..errors import CardError, unknown
from .outcome import Outcome
from .part import GATE, KIND, Part
from .registry import REWARDS, told
from .spec import check_digest, make_part


def recorded_part(
    name: str, said: Any, known: Mapping[str, Part], trust: bool, scored: bool
) -> Part:
    """The part that ``said`` records under ``name``.

    Args:
        name: The part's.
        said: Result of :meth:`Part.record`: a weight or a table.
        known: Parts by name whose objects may stand in for what is not registered.
        trust: Import what the record names.
        scored: False puts 0 in the place of what is neither registered nor known.

    Raises:
        CardError: as for ``Reward.from_json``.
    """
    if not isinstance(said, Mapping):
        if name not in REWARDS:  # an import path has a table of its own, and says its digest
            raise CardError(unknown(KIND, name, REWARDS))
        return make_part(name, said)
    use = said.get("use", "")
    if use in REWARDS:
        return make_part(said, name=name)
    weight = said.get("weight", 1.0)
    given = known.get(name)
    if given is not None:
        if use and given.use != use:
            raise CardError(
                f"the reward part {name!r} was recorded as {use!r}, and the one given is "
                f"{given.use or told(given.measure)!r}"
            )
        if "digest" in said:
            check_digest(given, said["digest"])
        gates = weight == GATE
        return replace(given, weight=1.0 if gates else float(weight), gates=gates)
    if not scored:
        return Part(name, _nothing, 1.0 if weight == GATE else float(weight), weight == GATE)
    if not use:
        raise CardError(
            f"the reward part {name!r} ({said.get('unnamed')}) has no import path, so a record "
            "cannot bring it back; pass the object: reward=…"
        )
    if not trust:
        raise CardError(
            f"the reward part {name!r} is code of its own ({use!r}), and a record may not say what "
            "is run; pass the object (reward=…), or trust=True (--trust) if you know where the "
            "record is from"
        )
    return make_part(said, name=name)


def _nothing(outcome: Outcome) -> float:
    """Stands in for a part that is not to be measured."""
    return 0.0
