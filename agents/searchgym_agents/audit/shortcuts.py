"""Shortcuts of questions: the four risks of FORT-Searcher, measured on a set and a corpus.

Chen et al., 2026 (arXiv 2606.12087) name what lets a search be cheaper than the question looks:
a single clue that singles out the answer, one page that holds several facts, constants that should
have been discovered, and knowledge from before the search. Here each is read off the texts, so that
any set can be measured; the first three only where several gold passages are named.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from searchgym.corpora.corpus import AnswerIndex, Corpus, is_aggregated
from searchgym.errors import EngineError
from searchgym.evaluation.intervals import Interval, proportion
from searchgym.llms.base import Generator, GenRequest, Sampling
from searchgym.text import bare_title, normalise_answer
from searchgym.types import Failure, SearchEngine, Task
from searchgym_agents.candidate.question import read_question

from .searcher import rankings
from .verdicts import family_of, gold_passages, titled

RISKS = ("one clue", "one page", "constants", "priors")
PROMPT = "Answer in a few words.\nQuestion: {question}\nAnswer:"


class Shortcut(NamedTuple):
    """Shortcuts that make a question easier than it looks; None where that cannot be said."""

    task_id: str
    family: str
    one_clue: bool | None
    """A search for one name, date or number of it alone shows all that is still needed."""
    one_page: bool | None
    """One passage states the answer and names all needed pages."""
    constants: bool | None
    """It names the page with the answer, or what stands there and hardly anywhere else."""
    priors: bool
    """The answer is known without a search."""


def find_shortcuts(
    tasks: Sequence[Task],
    corpus: Corpus,
    engine: SearchEngine,
    *,
    k: int = 5,
    rare: int = 3,
    closed_book: Generator | None = None,
) -> list[Shortcut]:
    """One finding per task that is not to be refused.

    Args:
        tasks: Questions with accepted answers; gold passages where they are named.
        corpus: What is to answer them.
        engine: Searches it.
        k: Hits of a clue's search.
        rare: Passages of the corpus in which an exposed constant stands at most.
        closed_book: Asked without passages; without one, the guess is the commonest answer of the
            other questions of the family that begin with the same two words.

    Raises:
        EngineError: a query or a completion failed.
    """
    tasks = [task for task in tasks if not task.should_abstain]
    index, pages = AnswerIndex(corpus), titled(corpus)
    clues = [[m for m in read_question(t.question).mention_texts if m.strip()] for t in tasks]
    asked = {clue: task for task, each in zip(tasks, clues, strict=True) for clue in each}
    found = rankings(engine, [(task, clue) for clue, task in asked.items()], k)
    shown = {c: {hit.passage.id for hit in r} for c, r in zip(asked, found, strict=True)}
    known = _told(tasks, closed_book) if closed_book else _guessed(tasks)
    findings = []
    for task, own, prior in zip(tasks, clues, known, strict=True):
        gold, absent = gold_passages(task, corpus, pages)
        if len(gold) < 2 or absent:
            findings.append(Shortcut(task.id, family_of(task), None, None, None, prior))
            continue
        question = f" {normalise_answer(task.question)} "
        offered = any(f" {normalise_answer(a)} " in question for a in task.answers)
        free = offered or is_aggregated(task)  # a comparison's answer stands on one page alone
        stated = [p for p in gold if not free and index.readable(task.answers, [p])]
        needed = stated or gold  # what a search must show: the answer, or all if none states it
        enough = any if stated else all
        names = [bare_title(corpus.passage(p).title) for p in gold]
        named = [f" {normalise_answer(bare_title(corpus.passage(p).title))} " in question
                 for p in needed]  # fmt: skip
        start = {normalise_answer(name) for name in names}  # where a search begins is no leak
        scarce = [c for c in own if 0 < len(places := index.places([c])) <= rare
                  and normalise_answer(c) not in start
                  and any(corpus[place].id in stated for place in places)]  # fmt: skip
        holding = {corpus[p].id for p in index.places(task.answers)} if not free else set(gold)
        findings.append(Shortcut(
            task.id, family_of(task),
            any(enough(p in shown[clue] for p in needed) for clue in own),
            any(all(index.readable([name], [p]) for name in names) for p in holding),
            enough(named) or bool(scarce),
            prior,
        ))  # fmt: skip
    return findings


def rates(findings: Sequence[Shortcut]) -> dict[str, dict[str, Interval]]:
    """Family (first "all") → risk → share of the questions of which it can be said."""
    groups: dict[str, list[Shortcut]] = {"all": list(findings)}
    for finding in findings:
        groups.setdefault(f"family {finding.family}", []).append(finding)
    if len(groups) == 2:
        del groups[f"family {findings[0].family}"]
    table: dict[str, dict[str, Interval]] = {}
    for group, members in groups.items():
        columns = zip(*(member[2:] for member in members), strict=True)
        said = [[flag for flag in column if flag is not None] for column in columns]
        table[group] = {r: proportion(sum(f), len(f)) for r, f in zip(RISKS, said, strict=True)}
    return table


def _guessed(tasks: Sequence[Task]) -> list[bool]:
    """Check whether the commonest answer of the other questions that begin alike is right."""
    keys = [(family_of(t), *t.question.lower().split()[:2]) for t in tasks]
    answers: Mapping[object, Counter[str]] = defaultdict(Counter)
    for key, task in zip(keys, tasks, strict=True):
        answers[key][normalise_answer(task.answers[0])] += 1
    right = []
    for key, task in zip(keys, tasks, strict=True):
        others = answers[key] - Counter([normalise_answer(task.answers[0])])
        guess = max(sorted(others), key=others.__getitem__, default="")
        right.append(guess in {normalise_answer(answer) for answer in task.answers})
    return right


def _told(tasks: Sequence[Task], generator: Generator) -> list[bool]:
    """Check whether a generator's short answer without passages holds an accepted one."""
    sampling = Sampling(max_tokens=24, temperature=0.0, stop=("\n",))
    batch = [GenRequest(PROMPT.format(question=t.question), sampling) for t in tasks]
    right = []
    for task, told in zip(tasks, generator.run(batch), strict=True):
        if isinstance(told, Failure):
            raise EngineError(f"{task.id}: no answer from the closed book: {told.message}")
        reply = f" {normalise_answer(told.text)} "
        right.append(any(f" {normalise_answer(a)} " in reply for a in task.answers))
    return right
