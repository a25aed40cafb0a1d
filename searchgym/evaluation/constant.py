"""Score of the best constant answer: what every other score must be laid beside.

``python -m searchgym.evaluation.constant envs/`` writes the figure, and that of answering with the
first title that the question itself finds, into every environment's page.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..errors import DataError
from ..text import normalise_answer
from ..types import Task
from ..utils.files import write_whole

BEGIN, END = "<!-- constant answer: generated -->", "<!-- end -->"


def accepted(tasks: Sequence[Task]) -> Counter[str]:
    """Count, for every answer that some task accepts, the tasks that accept it (SQuAD's
    normalisation)."""
    counts: Counter[str] = Counter()
    for task in tasks:
        counts.update({normalise_answer(answer) for answer in task.answers})
    return counts


def best_constant(tasks: Sequence[Task]) -> tuple[str, float]:
    """Give the answer that most tasks accept, and the share of tasks that accept it.

    It is chosen in hindsight, so it is an upper bound for every policy that always says the same.
    Ties go to the answer that is more often a task's first, then by alphabet; the share of no tasks
    is 0.
    """
    counts = accepted(tasks)
    if not counts:
        return "", 0.0
    first = Counter(normalise_answer(task.answers[0]) for task in tasks)
    answer = min(counts, key=lambda text: (-counts[text], -first[text], text))
    return answer, counts[answer] / len(tasks)


def sentence(env: Any) -> str:
    """Say what an environment pays for no work: two sentences for its page."""
    from ..agents.scripted import FirstHitAgent
    from ..envs.unwrap import search_env
    from .run import evaluate

    shared = search_env(env)
    answer, share = best_constant(shared.tasks)
    alone = f"The best constant answer, chosen in hindsight, is “{answer}” and earns {share:.3f}"
    if not shared.rules.tools:
        return f"{alone}."
    first = evaluate(FirstHitAgent(), shared).means["em"].mean
    return (
        f"{alone}; searching the question and answering with the first title earns {first:.3f} "
        f"({len(shared.tasks):,} questions of the split `{shared.setup.options.split}`)."
    )


def write_page(page: Path, env: Any) -> None:
    """Write the sentence into a page, at the end of its section on rewards or where it was."""
    text = page.read_text(encoding="utf-8")
    block = f"{BEGIN}\n{sentence(env)}\n{END}\n"
    if BEGIN in text:
        made = re.sub(
            rf"{re.escape(BEGIN)}.*?{re.escape(END)}\n", lambda _: block, text, flags=re.S
        )
    else:
        made = text.replace("\n## Starting State", f"\n{block}\n## Starting State")
    write_whole(page, made)


def main(folder: Path) -> None:
    """Write every page of a catalogue of environments; those without their data stay as they
    are."""
    import gymnasium as gym

    from ..cards import cards

    for name, item in cards("envs").items():
        try:
            env = gym.make(item.id)
        except DataError as error:
            print(f"{name}: unchanged, its data is not here: {error}")
            continue
        write_page(folder / name / "README.md", env)
        print(f"{name}: {sentence(env)}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
