"""Score of the best constant answer, and of tricks that need no knowledge: what every other score
must be laid beside.

``python -m docsite.constant envs/`` writes the figures, and that of answering with the
first title that the question itself finds, into every environment's page.
"""

from __future__ import annotations

import math
import re
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from searchgym.dialects.base import get_dialect
from searchgym.errors import DataError
from searchgym.scoring import score_answer
from searchgym.storage.files import write_whole
from searchgym.tasks.context import number_answers
from searchgym.text import normalise_answer
from searchgym.types import Search, Task

_WORDS = """
and or of in is it he she they we you I both neither either none nothing no yes true false unknown
unanswerable maybe all same different first second last one other that this who what when where why
how here there now never always everyone nobody someone person people man woman name not not_known
person film movie album song band company book novel magazine river city town country mountain
university school award prize museum park stadium team club player actor writer singer director
producer founder mayor president king queen scientist species disease university_of state_of
North South East West New Old Great River City University Award Records Brothers Saint St. de la
American British English French German Italian Spanish Russian Chinese Japanese Indian Christian
James John Robert Michael William David Richard Joseph Thomas Charles Mary Patricia Jennifer Linda
Elizabeth Barbara Susan Jessica Sarah Karen Anna Maria Peter Paul George Henry Edward Frank Alice
Emma Daniel Mark Martin Alexander Smith Johnson Williams Brown Jones Miller Davis Wilson Taylor Lee
London Paris Rome Berlin Madrid Vienna Moscow Tokyo Beijing Delhi Cairo Sydney Toronto Chicago
Boston New_York New_York_City Los_Angeles Washington,_D.C. England France Germany Italy Spain
Russia China Japan India Canada Australia Brazil Mexico Europe Asia Africa America United_States
United_States_of_America United_Kingdom World_War_II January February March April May June July
August September October November December Monday Sunday red blue green black white football
a_and_b A._B. a;_b;_c yes_no no_yes yes_and_no yes;_no yes,_no 0_or_1 1_or_2 2_or_3 1_2_3
and_and_and of_of_of ; , . - * [ ] {} [] "" '' <answer> .* null None NaN N/A ? ! : | / \\ & + = %
the_of_and_in_a of_the of_the_and the_and_of,_in_and The_answer_is_yes. not_yes 1st 10,000 1,000,000
"""
CONSTANTS: tuple[str, ...] = tuple(
    dict.fromkeys(
        [word.replace("_", " ") for word in _WORDS.split()]
        + [form for number in range(31) for form in number_answers(number)]
        + [str(year) for year in range(1820, 2031)]
        + [sign.join(map(str, range(stop))) for sign in (" ", ", ", "; ") for stop in (4, 11, 31)]
        + [(sign * 50).strip() for sign in ("; ", ", ", "and ", "[", "x; ", "yes no ", "the ")]
    )
)
"""Answers that are the same whatever is asked."""
_NAMED = re.compile(
    r"(?<!^)(?<![.?!:] )[A-Z][\w'’&-]*(?: (?:(?:of|the|and|in|de|&) )*[A-Z0-9][\w'’&-]*)*"
)


def _names(question: str) -> list[str]:
    return _NAMED.findall(question) or question.split()[-1:]


TRICKS: Mapping[str, Callable[[str], str]] = {
    "the question": str,
    "the question, yes and no": lambda question: f"{question} yes no",
    "the question, 0 to 30": lambda question: " ".join([question, *map(str, range(31))]),
    "the question backwards": lambda question: " ".join(question.split()[::-1]),
    "the question's words, a line each": lambda question: "\n".join(question.split()),
    "the question's first word": lambda question: question.split()[0],
    "the question's last word": lambda question: question.split()[-1],
    "the first name in the question": lambda question: _names(question)[0],
    "the last name in the question": lambda question: _names(question)[-1],
    "the last word of its last name": lambda question: _names(question)[-1].split()[-1],
    "the names in the question": lambda question: "; ".join(_names(question)),
    "its names, backwards": lambda question: "; ".join(_names(question)[::-1]),
    "its names, with blanks": lambda question: " ".join(_names(question)),
    "its names, yes and no": lambda question: " ".join([*_names(question), "yes no"]),
    "its names and “of”": lambda question: " of ".join(_names(question)),
}
"""Answers made of the question, without a search."""
TRIED = 100
"""Most questions on which every constant and trick is tried, every so many."""
QUERIES = (
    "city",
    "film",
    "person",
    "company",
    "born",
    "the",
    "album record label",
    "river country",
)
_CONVERSATION = re.compile(
    r"The answer was (.+?)\. Now I ask: (.+)|^Q: .* A: (.+?)\. Q: (.+)"
    r"|^You said (.+?) when I asked: .* And then: (.+)|It was (.+?)\. Next question: (.+)"
    r"|\? - (.+?)\. (.+)|\. - (.+?)\. (.+)"
)
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


def said_blindly(question: str) -> dict[str, str]:
    """Text by name of every constant and trick."""
    return {**{text: text for text in CONSTANTS},
            **{name: trick(question) for name, trick in TRICKS.items()}}  # fmt: skip


def best_trick(tasks: Sequence[Task], measure: str = "f1") -> tuple[str, float]:
    """Give the constant or trick with the highest mean of a measure, and that mean; of equal ones
    the first."""
    totals: Counter[str] = Counter()
    for task in tasks:
        for name, text in said_blindly(task.question).items():
            totals[name] += score_answer(task, text).get(measure, 0.0)  # type: ignore[assignment]
    best = max(totals, key=totals.__getitem__)
    return best, totals[best] / len(tasks)


def sentence(env: Any) -> str:
    """Say what an environment pays for no work: sentences for its page."""
    from searchgym.agents.simple import FirstHitAgent
    from searchgym.envs.unwrap import search_env
    from searchgym.evaluation.run import evaluate

    shared = search_env(env, stepped=True)
    if shared.rules.one_search:
        return _of_queries(shared)
    tried = shared.tasks[:: math.ceil(len(shared.tasks) / TRIED)]
    trick, f1 = best_trick(tried)
    f1_of = (
        f'Of {len(CONSTANTS) + len(TRICKS)} constants and tricks, the best under `reward="f1"` is '
        f"“{trick}”, which earns {f1:.3f} ({len(tried):,} questions)."
    )
    answer, share = best_constant(shared.tasks)
    alone = f"The best constant answer, chosen in hindsight, is “{answer}” and earns {share:.3f}"
    if all(tool.name != "search" for tool in shared.rules.tools):
        return f"{alone}. {f1_of}"
    first = evaluate(FirstHitAgent(), shared).means["em"].mean
    return (
        f"{alone}; searching the question and answering with the first title earns {first:.3f} "
        f"({len(shared.tasks):,} questions of the split `{shared.setup.options.split}`). {f1_of}"
    )


def _of_queries(env: Any) -> str:
    """The same where queries are paid: a constant one, the question, and a pattern's rewriting."""
    tasks = env.tasks

    def earned(write: Callable[[str], str]) -> float:
        total = 0.0
        for task in tasks:
            env.reset(seed=0, options={"task_id": task.id})
            text = get_dialect(env.rules.dialect).render_action(Search((write(task.question),)))
            total += env.step(text)[1]
        return total / len(tasks)

    constant = max(QUERIES, key=lambda query: earned(lambda _: query))
    gold = {task.question: task.queries[0] for task in tasks}
    return (
        f"Of {len(QUERIES)} constant queries the best, “{constant}”, earns "
        f"{earned(lambda _: constant):.3f}; the whole conversation as a query "
        f"{earned(str):.3f}; its last question with the answer in the place of “that one”, which a "
        f"regular expression finds, {earned(rewritten):.3f}; the gold query "
        f"{earned(gold.__getitem__):.3f} ({len(tasks):,} questions of the split "
        f"`{env.setup.options.split}`)."
    )


def rewritten(question: str) -> str:
    """Put a conversation's answer in the place of "that one" in its last question."""
    found = _CONVERSATION.search(question)
    if found is None:
        return question
    answer, last = (group for group in found.groups() if group)
    return re.sub("that one", lambda _: answer, last, flags=re.IGNORECASE)


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

    from searchgym.cards import cards

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
