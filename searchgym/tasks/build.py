"""Building task sets from a world and its corpus.

Two named streams: what is asked depends on ``seed`` alone, how it is put on ``wording_seed`` (and
``phrasing``) alone, so that wording can change while graphs, answers and evidence stay.
"""

from __future__ import annotations

import math
import warnings
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

from ..corpora.corpus import GeneratedCorpus
from ..errors import SearchGymError, TaskError
from ..seeding import stream
from ..text import normalise_answer
from ..types import Task
from ..worlds.world import World
from .context import Context
from .draft import Draft, Family
from .families import AT_MOST, wanted_families
from .wording import Voice

PATIENCE = 3_000
"""Proposals in a row without a new task after which a world counts as exhausted."""
STALL = 60
"""Failed proposals after which a family's turn moves on: some shapes do not exist in a world."""
REWORDINGS = 50


class FewerTasks(UserWarning):
    """Warns of a world that holds fewer tasks of a family than were asked for."""


def build_tasks(
    world: World,
    corpus: GeneratedCorpus,
    *,
    counts: Mapping[Any, Any],
    families: Collection[str] | None = None,
    seed: int = 0,
    wording_seed: int = 0,
    phrasing: str = "train",
    split: str = "train",
    id_prefix: str = "task",
    prove: Callable[[Sequence[Task]], Collection[Task]] | None = None,
) -> list[Task]:
    """Build ``counts[family]`` tasks of each family, ids "{id_prefix}-{family}-{number}".

    Deterministic; no two tasks ask the same thing or have the same question text.

    Args:
        world: What is asked about.
        corpus: Its passages.
        counts: See :func:`searchgym.tasks.families.wanted_families`. With ``"at_most": True`` a
            world that holds fewer tasks gives those, with a warning; else that is an error.
        families: Names of the families to build; by default all of ``counts``.
        seed: Fixes what is asked.
        wording_seed: Fixes how it is put.
        phrasing: "train" or "heldout".
        split: Recorded in each task.
        id_prefix: How ids begin.
        prove: Gives those of some tasks that stand; for each that does not another one is made.

    Raises:
        TaskError: an unknown family or phrasing; the world is too small for ``counts`` (it says how
            many tasks were possible); a family that raises, or gives what is no task.
    """
    ctx = Context(world, corpus)
    Voice(ctx, phrasing, wording_seed)  # a wrong phrasing fails before any work
    questions: set[str] = set()
    seen: set[object] = set()
    tasks: list[Task] = []
    for kind, number in wanted_families(counts, families):
        answers: Counter[str] = Counter()
        drafts = _drafts(ctx, kind, number, seed, seen, answers)
        standing: list[Task] = []
        made = 0
        while batch := list(islice(drafts, number - len(standing))):
            built: list[Task] = []
            for i, draft in enumerate(batch, made):
                task_id = f"{id_prefix}-{kind.name}-{i}"
                if isinstance(draft, Task):
                    task = replace(draft, id=task_id, family=kind.name, split=split)
                else:
                    key = f"{kind.name}-{i}"
                    worded = _question(ctx, draft, phrasing, wording_seed, key, questions)
                    task = _task(draft, *worded, task_id, split, phrasing)
                questions.add(task.question)
                seen.add(("question", task.question))
                built.append(task)
            made += len(batch)
            stand = prove(built) if prove else built
            answers.subtract(normalise_answer(task.answers[0]) for task in built)
            answers.update(normalise_answer(task.answers[0]) for task in stand)
            standing += stand
        if len(standing) < number:
            short = (
                f"asked for {number} tasks of family {kind.name!r}, but this world of "
                f"{world.n_entities} entities gave only {len(standing)}"
            )
            if not counts.get(AT_MOST, False):
                raise TaskError(f"{short}; ask for fewer or generate a larger world")
            warnings.warn(short, FewerTasks, stacklevel=2)
        tasks += standing
    return tasks


def _drafts(
    ctx: Context, kind: Family, number: int, seed: int, seen: set[object], answers: Counter[str]
) -> Iterator[Draft | Task]:
    """New proposals of a family, until the world holds no more; of ``number`` no answer is too
    frequent. ``answers`` counts them."""
    rng = stream(seed, "tasks", kind.name)
    most = max(2, math.ceil(kind.same_answer * number))
    failed = turn = 0
    while failed <= PATIENCE:
        try:
            draft = kind.propose(ctx, rng, turn)
        except SearchGymError:
            raise
        except Exception as error:  # whatever it is: the family is named, the cause kept
            raise _failed(kind.name, f"at its turn {turn}", error) from error
        if draft is not None:
            _require_draft(draft, kind.name, turn)
            key = normalise_answer(draft.answers[0])
            if isinstance(draft, Task):
                signature: object = ("question", draft.question)
            else:
                signature = draft.signature
            if signature not in seen and answers[key] < most:
                seen.add(signature)
                answers[key] += 1
                turn += 1
                failed = 0
                yield draft
                continue
        failed += 1
        if failed % STALL == 0:
            turn += 1


def _failed(family: str, when: str, error: Exception) -> TaskError:
    return TaskError(
        f"the task family {family!r} failed {when}: {type(error).__name__}: {error}; a family that "
        "finds no question returns None"
    )


def _require_draft(draft: object, family: str, turn: int) -> None:
    if not isinstance(draft, Draft | Task):
        raise TaskError(
            f"the task family {family!r} gave {type(draft).__name__} at its turn {turn} where a "
            f"Task, a Draft or None was expected: {draft!r:.80}"
        )
    if isinstance(draft, Task):
        from .records import checked_tasks  # most families give drafts

        checked_tasks([replace(draft, id=f"{family}-{turn}")])


def _question(
    ctx: Context, draft: Draft, phrasing: str, wording_seed: int, key: str, taken: set[str]
) -> tuple[str, bool]:
    for attempt in range(REWORDINGS):
        voice = Voice(ctx, phrasing, wording_seed, key, attempt)
        try:
            question = draft.render(voice)
        except SearchGymError:
            raise
        except Exception as error:
            raise _failed(draft.family, f"to word {key}", error) from error
        if question not in taken:
            return question, voice.ordered
    raise TaskError(
        f"two {draft.family} tasks read alike in every wording: {question!r}; give the properties "
        "they use different phrasings in the schema"
    )


def _task(
    draft: Draft, question: str, ordered: bool, task_id: str, split: str, phrasing: str
) -> Task:
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
        items=draft.items,
        ordered=ordered,
        meta={"shape": draft.shape, "phrasing": phrasing, **draft.meta},
    )
