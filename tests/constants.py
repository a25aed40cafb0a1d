"""What constants and tricks earn, by family and reward; environments' pages state it of theirs.

``PYTHONPATH=.site python -m tests.constants`` tries all of them and writes the best into
``constants.json``: a change of that table is a change of what a text without knowledge earns.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from docsite.constant import said_blindly
from searchgym.dialects import get_dialect
from searchgym.envs import SearchEnv
from searchgym.evaluation import episode_for
from searchgym.rewards import REWARDS
from searchgym.types import Answer, Task

from .solving import world

TABLE = Path(__file__).with_suffix(".json")
PER_FAMILY = 12
PAID = tuple(name for name in REWARDS if name != "cover_em")
"""Rewards; that of cover-EM is refused."""


def families() -> SearchEnv:
    """A world with tasks of every family, paid by every reward at once."""
    return world(PER_FAMILY, world={"entities": 1200}, reward=dict.fromkeys(PAID, 1.0))


def by_family(env: SearchEnv) -> Mapping[str, Sequence[Task]]:
    groups: dict[str, list[Task]] = defaultdict(list)
    for task in env.tasks:
        groups[task.family].append(task)
    return groups


def played(env: SearchEnv, task: Task, text: str) -> Mapping[str, float]:
    """What every reward pays for an answer in form, without a search."""
    said = get_dialect(env.rules.dialect).render_action(Answer("PLACE")).replace("PLACE", text)
    episode = episode_for(env, task, 0)
    episode.act(f"<think> I know. </think>\n{said}")
    outcome = episode.outcome()
    parts = outcome.parts if outcome else {}  # a text that holds tags may be no answer
    return {name: parts.get(name, 0.0) for name in (*PAID, "cover_em")}


def best(
    env: SearchEnv, tasks: Sequence[Task], tried: Collection[str] | None = None
) -> dict[str, tuple[str, float]]:
    """The best constant or trick by reward, of all or of those tried."""
    sums: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for task in tasks:
        for name, text in said_blindly(task.question).items():
            if tried is None or name in tried:
                for reward, value in played(env, task, text).items():
                    sums[reward][name] += value
    winners = {reward: max(of, key=of.__getitem__) for reward, of in sums.items()}
    return {r: (name, round(sums[r][name] / len(tasks), 9)) for r, name in winners.items()}


def main() -> None:
    env = families()
    found = {family: best(env, tasks) for family, tasks in by_family(env).items()}
    text = json.dumps(found, indent=1, ensure_ascii=False)
    text = re.sub(r'\[\s+(".*"),\s+(\S+)\s+\]', r"[\1, \2]", text)  # a row, a line
    TABLE.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
