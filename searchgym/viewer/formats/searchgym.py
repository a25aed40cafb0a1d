"""Reader of our own trajectories (``searchgym.core.trajectory``) from JSON: nothing is replayed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from ...rewards.outcome import MEASURES
from ...rewards.registry import FINAL
from ..record import Observation, Record, ShownHit, Token, ViewedTurn

NAME = "searchgym"
COUNTS = frozenset(MEASURES).difference(FINAL)
"""Measures of an episode that the record tells in other ways."""


def fits(value: Mapping[str, Any]) -> bool:
    """Return whether a first record is of this kind."""
    return {"schema_version", "snapshot", "segments", "turns"} <= set(value)


def read(value: Mapping[str, Any]) -> Record:
    """One record."""
    task = value["snapshot"]["config"]["task"]
    training = value.get("training") or {}
    turns = [_turn(t, training.get("advantages", {})) for t in value["turns"]]
    prompt = _observed(value["segments"], turns)
    _shown(value["snapshot"]["events"], turns)
    return Record(
        id=value["id"],
        task=value["task_id"],
        question=value["question"],
        answers=tuple(value["answers"]),
        answer=value["answer"],
        end=value["end"] or "",
        reward=training.get("reward", value["ret"]),
        parts={k: v for k, v in value["parts"].items() if k not in COUNTS and v is not None},
        family=value["family"],
        hops=(task.get("difficulty") or {}).get("hops", task.get("hops")),
        step=training.get("step"),
        parent=tuple(value["parent"]) if value["parent"] else None,
        evidence=tuple(task.get("evidence", ())),
        recall=value["evidence_recall"],
        closed=not value["snapshot"]["config"]["search_enabled"],
        prompt=prompt,
        turns=turns,
        tokens=[_tokens(row) for row in training.get("rows", ())],
        facts=_facts(value, training),
    )


def _turn(turn: Mapping[str, Any], advantages: Mapping[str, float]) -> ViewedTurn:
    kind, *rest = turn["action"]
    return ViewedTurn(
        number=turn["number"],
        text=turn["text"],
        action=kind,
        detail="; ".join(_flat(rest)),
        context=turn["context"],
        role=turn["role"],
        tools=tuple(dict.fromkeys(c["tool"] for c in turn["calls"])),
        reward=turn["reward"],
        parts=turn["reward_parts"],
        advantage=advantages.get(str(turn["number"])),
    )


def _flat(values: Sequence[Any]) -> list[str]:
    return [str(v) for value in values for v in (value if isinstance(value, list) else [value])]


def _observed(
    segments: Sequence[Mapping[str, Any]], turns: Sequence[ViewedTurn]
) -> list[Observation]:
    """Give each turn what followed it; returns what stood before the first. Segments stand in the
    order they were written, so each of the policy's begins a turn."""
    prompt: list[Observation] = []
    into, number = prompt, 0
    for segment in segments:
        if segment["author"] == "policy":
            if number < len(turns):
                into = turns[number].observations
            number += 1
        else:
            into.append(Observation(segment["kind"], segment["text"], segment["visible"]))
    return prompt


def _shown(events: Sequence[Sequence[Any]], turns: Sequence[ViewedTurn]) -> None:
    """Give each turn its hits and failures, from the log of the episode."""
    number = -1
    for event in events:
        if event[0] == "act":
            number += 1
            continue
        if event[0] == "fail":
            number += 1
        if not 0 <= number < len(turns):
            continue
        turn = turns[number]
        for result in event[1]:
            if "failure" in result:
                turn.failures.append(f"{result['failure'][0]}: {result['failure'][1]}")
                continue
            turn.hits += [ShownHit(*hit) for hit in result["hits"]]
            page = (result.get("meta") or {}).get("page")
            if page:
                turn.hits += [ShownHit(p, page[1], "", page[0]) for p in page[3]]


def _tokens(row: Mapping[str, Any]) -> list[Token]:
    fields = zip(
        row["text"], row["turn"], row["trained"], row["logp"], row["advantage"], strict=True
    )
    return [Token(t, n, bool(m), p, a) for t, n, m, p, a in fields]


def _facts(value: Mapping[str, Any], training: Mapping[str, Any]) -> dict[str, str]:
    config = value["snapshot"]["config"]
    rules = config["rules"]
    facts = {
        "split": config["task"].get("split", ""),
        "dialect": rules["dialect"],
        "passages per search": str(rules["k"]),
        "turns allowed": str(rules["max_turns"]),
        "search": "" if config["search_enabled"] else "switched off",
        "purpose": value["purpose"],
        "group": training.get("group", ""),
    }
    extra: dict[str, Any] = defaultdict(str, config.get("params") or {})
    facts |= {name: f"{amount:g}" for name, amount in extra.items()}
    facts |= {name.replace("_", " "): f"{n:g}" for name, n in (value.get("usage") or {}).items()}
    return {name: text for name, text in facts.items() if text}
