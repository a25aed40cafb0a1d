"""Building task sets from a world and its corpus.

Two named streams: what is asked depends on ``seed`` alone, how it is put on ``wording_seed`` (and
``phrasing``) alone, so that wording can change while graphs, answers and evidence stay.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping

from ..corpora.corpus import GeneratedCorpus
from ..errors import TaskError
from ..seeding import stream
from ..text import normalise_answer
from ..types import Task
from ..worlds.world import World
from .context import Context
from .draft import Draft
from .families import Family, family
from .wording import Voice

PATIENCE = 3_000
"""Proposals in a row without a new task after which a world counts as exhausted."""
STALL = 60
"""Failed proposals after which a family's turn moves on: some shapes do not exist in a world."""
REWORDINGS = 50


def build_tasks(
    world: World,
    corpus: GeneratedCorpus,
    *,
    counts: Mapping[str, int],
    seed: int = 0,
    wording_seed: int = 0,
    phrasing: str = "train",
    split: str = "train",
    id_prefix: str = "task",
) -> list[Task]:
    """Build ``counts[family]`` tasks of each family, ids "{id_prefix}-{family}-{number}".

    Deterministic; no two tasks ask the same thing or have the same question text. Families are
    ``families.FAMILIES`` and ``chain-2`` … ``chain-6``. Raises ``TaskError`` for an unknown family
    or phrasing, and, saying how many were possible, when the world is too small.
    """
    ctx = Context(world, corpus)
    Voice(ctx, phrasing, wording_seed)  # a wrong phrasing fails before any work
    questions: set[str] = set()
    seen: set[object] = set()
    tasks: list[Task] = []
    for name, number in counts.items():
        kind = family(name)
        if number < 0:
            raise TaskError(f"counts[{name!r}] must be 0 or more, got {number}")
        for i, draft in enumerate(_drafts(ctx, kind, number, seed, seen)):
            question = _question(ctx, draft, phrasing, wording_seed, f"{name}-{i}", questions)
            questions.add(question)
            tasks.append(_task(draft, question, f"{id_prefix}-{name}-{i}", split, phrasing))
    return tasks


def _drafts(ctx: Context, kind: Family, number: int, seed: int, seen: set[object]) -> list[Draft]:
    rng = stream(seed, "tasks", kind.name)
    most = max(2, math.ceil(kind.same_answer * number))
    answers: Counter[str] = Counter()
    drafts: list[Draft] = []
    failed = turn = 0
    while len(drafts) < number:
        draft = kind.propose(ctx, rng, turn)
        if draft is not None:
            key = normalise_answer(draft.answers[0])
            if draft.signature not in seen and answers[key] < most:
                seen.add(draft.signature)
                answers[key] += 1
                drafts.append(draft)
                turn += 1
                failed = 0
                continue
        failed += 1
        if failed % STALL == 0:
            turn += 1
        if failed > PATIENCE:
            raise TaskError(
                f"asked for {number} tasks of family {kind.name!r}, but this world of "
                f"{ctx.world.n_entities} entities gave only {len(drafts)}; ask for fewer or "
                "generate a larger world"
            )
    return drafts


def _question(
    ctx: Context, draft: Draft, phrasing: str, wording_seed: int, key: str, taken: set[str]
) -> str:
    for attempt in range(REWORDINGS):
        question = draft.render(Voice(ctx, phrasing, wording_seed, key, attempt))
        if question not in taken:
            return question
    raise TaskError(
        f"two {draft.family} tasks read alike in every wording: {question!r}; give the properties "
        "they use different phrasings in the schema"
    )


def _task(draft: Draft, question: str, task_id: str, split: str, phrasing: str) -> Task:
    return Task(
        id=task_id,
        question=question,
        answers=draft.answers,
        evidence=draft.evidence,
        queries=draft.queries,
        family=draft.family,
        hops=draft.difficulty.hops,
        split=split,
        graph=draft.graph,
        difficulty=draft.difficulty,
        should_abstain=draft.should_abstain,
        meta={"shape": draft.shape, "phrasing": phrasing},
    )
