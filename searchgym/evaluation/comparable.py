"""Refuses to compare results whose settings differ in more than the agent.

"EM 0.40" with k=3 and with k=5 are answers to different questions.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Protocol

from ..errors import EvaluationError

IGNORED = ("agent", "batch", "questions", "environment.data_dir", "instructions", "tokens", "judge")
"""Settings that may differ. The agent is what is compared, and who counts its tokens is its own;
the batch size and the folder of the data change no result; questions are paired one by one;
instructions follow from the rules. The judge matters only where its verdicts are compared."""
BEHIND = {"judge": "judge", "tokens_in": "tokens", "tokens_out": "tokens"}
"""Metric → the ignored setting that matters to it after all."""
SHOWN = 6


class Evaluated(Protocol):
    """Fields a result needs to be compared: agent, settings and seed."""

    @property
    def agent(self) -> str: ...
    @property
    def settings(self) -> Mapping[str, Any]: ...
    @property
    def seed(self) -> int: ...
    @property
    def scoring_version(self) -> int: ...


class NotComparable(EvaluationError):
    """Raised for results whose settings differ; ``names`` is what ``despite`` has to hold besides
    for them to be compared, and ``advice`` all before it."""

    def __init__(self, advice: str, names: Sequence[str]) -> None:
        super().__init__(f"{advice}: despite={[*names]}")
        self.advice, self.names = advice, names


def differing(
    a: Mapping[str, Any], b: Mapping[str, Any], ignored: Collection[str] = IGNORED
) -> dict[str, tuple[Any, Any]]:
    """Dotted name → (value in a, value in b) of every setting that differs and matters; None
    stands for "not there"."""
    first, second = dict(_flat(a)), dict(_flat(b))
    return {
        name: (first.get(name), second.get(name))
        for name in sorted({*first, *second})
        if first.get(name) != second.get(name) and not _under(name, ignored)
    }


def check_comparable(
    a: Evaluated, b: Evaluated, despite: Collection[str] = (), metric: str = ""
) -> None:
    """Raise ``NotComparable`` naming what differs, unless it is (in) one of ``despite``.

    ``despite``: dotted names, e.g. ``("rules.k", "versions")`` for results of two releases, or
    ``("search_enabled",)`` to compare with a closed book.
    """
    ignored = {name for name in IGNORED if name != BEHIND.get(metric)} | {*despite}
    differences = differing(a.settings, b.settings, ignored)
    versions = a.scoring_version, b.scoring_version
    if versions[0] != versions[1] and not _under("scoring.version", ignored):
        differences["scoring.version"] = versions
    if a.seed != b.seed and "seed" not in despite:
        differences["seed"] = (a.seed, b.seed)
    if not differences:
        return
    many = len(differences) > SHOWN
    raise NotComparable(
        f"not comparable: {a.agent} and {b.agent} were evaluated with different "
        f"{told(differences)}; evaluate both alike, or say that the difference is meant",
        sorted({name.split(".")[0] if many else name for name in differences}),
    )


def asked_differently(a: Evaluated, b: Evaluated) -> dict[str, tuple[Any, Any]]:
    """Dotted name → values of what differs in how two language models were asked: sampling, prompt
    format. It is part of the agent, so results may be compared, but not taken for like. Empty where
    one of them does not say."""
    agents = [result.settings.get("agent", {}) for result in (a, b)]
    both = [name for name in ("sampling", "prompt") if all(agent.get(name) for agent in agents)]
    first, second = ({name: agent[name] for name in both} for agent in agents)
    return differing(first, second, ())


def told(differences: Mapping[str, tuple[Any, Any]]) -> str:
    """Describe the differences in a message: "rules.k (3 and 5), …"."""
    each = [f"{name} ({_short(x)} and {_short(y)})" for name, (x, y) in differences.items()]
    more = f" and {len(each) - SHOWN} more" if len(each) > SHOWN else ""
    return ", ".join(each[:SHOWN]) + more


def _under(name: str, names: Collection[str]) -> bool:
    return any(name == n or name.startswith(f"{n}.") for n in names)


def _flat(value: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _flat(inner, f"{prefix}.{key}" if prefix else str(key))
    else:  # as it is read back from a file: tuples and lists are one
        yield prefix, json.loads(json.dumps(value))


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 40 else text[:39] + "…"
