"""A small schema as a mapping, for tests that break or bend one thing at a time."""

from __future__ import annotations

from typing import Any


def wording(verb: str, *, relation: bool) -> dict[str, Any]:
    found: dict[str, Any] = {
        "document": [f"{{s}} {verb}{k} {{o}}." for k in range(6)],
        "document_heldout": [f"{{s}} {verb}h {{o}}."],
        "question": [f"What does {{s}} {verb} ({k})?" for k in range(6)],
        "question_heldout": [f"What is it that {{s}} {verb}s?"],
        "noun": [f"what {{s}} {verb}s"],
        "noun_heldout": [f"the {verb} of {{s}}"],
    }
    if relation:
        found |= {"inverse": [f"what {verb}s {{o}}"], "inverse_heldout": [f"the {verb}er of {{o}}"]}
    return found


def small() -> dict[str, Any]:
    """Two types and one relation of every kind."""

    def relation(source: str, target: str, cardinality: str, **more: Any) -> dict[str, Any]:
        return {
            "source": source, "target": target, "cardinality": cardinality,
            **wording(more.pop("verb", "knows"), relation=True), **more,
        }  # fmt: skip

    return {
        "name": "small",
        "types": {
            "person": {
                "plural": "people", "share": 0.7, "names": "person", "facets": ["m", "f"],
                "pronouns": ["he/his", "she/her"], "reference": "", "alias": "full",
                "lead": ["{s} was born on {born}."], "lead_heldout": ["{s}, born {born}, lives."],
            },
            "town": {
                "share": 0.3, "names": "{place}; {place} Falls", "lead": ["{s} is a town."],
                "lead_heldout": ["{s} is a small town."],
            },
        },
        "relations": {
            "home": relation("person", "town", "n-1"),
            "likes": relation("person", "town", "n-n"),
            "mayor": relation("town", "person", "1-1"),
            "council": relation("town", "person", "1-n"),
            "married": relation("person", "person", "1-1", symmetric=True, presence=0.5),
            "friend": relation("person", "person", "n-n", symmetric=True),
            "father": relation("person", "person", "n-1", acyclic=True, target_facet="m", gap=0.1),
            "heir": relation("person", "person", "1-1", acyclic=True, presence=0.6),
            "taught": relation("person", "person", "1-n", acyclic=True, presence=0.5),
            "inspired": relation("person", "person", "n-n", acyclic=True),
            "hero": relation("town", "person", "n-1", within="home"),
        },
        "attributes": {
            "born": {
                "source": "person", "value": "date", "low": 1900, "high": 1990, "ordered": True,
                "more": "younger|youngest", **wording("born", relation=False),
            },
            "died": {
                "source": "person", "value": "date", "after": "born", "low": 20, "high": 90,
                "latest": 2020, **wording("died", relation=False),
            },
            "size": {
                "source": "town", "value": "count", "low": 2, "high": 100_000,
                "unit": "people", **wording("count", relation=False),
            },
            "kind": {
                "source": "town", "value": "category", "categories": ["port", "spa", "fort"],
                **wording("be", relation=False),
            },
        },
        "distractors": ["Little is known about {s}.", "{s} is not {x}."],
        "distractors_heldout": ["Nobody writes about {s}."],
    }  # fmt: skip
