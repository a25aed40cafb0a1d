"""Published rewards of the answer's form and content, and of calls that match the gold ones."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from searchgym import Answer, CardError, Search, Task
from searchgym.errors import check_known
from searchgym.rewards import SCORES, Outcome, in_form, structural, well_formed
from searchgym.text import answer_words, blocks, cover_match, normalise_answer
from searchgym.types import Invalid, Turn


@dataclass(frozen=True)
class DeepResearcher:
    """Pay the F1 of the sets of words, and charge an episode out of form.

    ``malformed`` for an episode with a turn that is no action, or without an answer (Zheng et al.,
    DeepResearcher, arXiv 2504.03160).
    """

    registered = "reward:deep_researcher"
    systems = ("DeepResearcher",)

    malformed: float = -1.0

    def final(self, outcome: Outcome) -> float:
        if not well_formed(outcome):
            return self.malformed
        if outcome.em == 1.0 or outcome.task.should_abstain:  # a refusal is right or wrong
            return outcome.em
        return max((set_f1(outcome.answer, answer) for answer in outcome.answers), default=0.0)


def set_f1(one: str, other: str) -> float:
    """F1 of the sets of two texts' normalised words."""
    a, b = (set(answer_words(normalise_answer(text))) for text in (one, other))
    return 2 * len(a & b) / (len(a) + len(b)) if a and b else 0.0


@dataclass(frozen=True)
class SweetSpot:
    """Pay the zone that a score falls into, 1/K to 1, so that near misses differ from far ones.

    The ``zones`` K divide [0, 1] evenly; ``score`` 0 to 1/K earns 1/K, …, the last zone 1; all
    times ``success``, a score that gates (Sweet-Spot Learning, arXiv 2601.22491). Zones that grow
    towards the optimum are the paper's; their edges and values, and which score says how near an
    episode came, are ours: names of ``lookups.SCORES``. ``score="thrift", success="em"`` ranks
    right answers by their queries.

    Raises:
        CardError: a score that is not known, or fewer than two zones.
    """

    registered = "reward:sweet_spot"
    systems = ("SSL",)

    score: str = "f1"
    success: str = "answered"
    zones: int = 4

    def __post_init__(self) -> None:
        check_known("score", SCORES, self.score, self.success)
        if self.zones < 2:
            raise CardError(f"a ladder has at least 2 zones, got {self.zones}")

    def final(self, outcome: Outcome) -> float:
        gate = SCORES[self.success](outcome)
        return gate * rung(SCORES[self.score](outcome), self.zones) if gate else 0.0


def rung(score: float, zones: int) -> float:
    """Value of the zone that holds a score in [0, 1]."""
    return (min(int(score * zones), zones - 1) + 1) / zones


@dataclass(frozen=True)
class SearchLLM:
    """Pay B · U: the nice-to-have mean U counts as far as the must-have scores B let it through.

    B = exp(mean log(b + δ)) - δ over the scores in ``must``, U the mean of those in ``nice``
    (SearchLLM). The gate by a smoothed geometric mean is the paper's; its δ, weights and scores
    were not read: ``delta``, equal weights and the names of ``lookups.SCORES`` are ours. Its judged
    scores (richness, usability) have no exact counterpart.

    Raises:
        CardError: a score that is not known, or none at all.
    """

    registered = "reward:search_llm"
    systems = ("SearchLLM",)

    must: Sequence[str] = field(default_factory=lambda: ["grounded", "format", "answered"])
    nice: Sequence[str] = field(default_factory=lambda: ["f1", "evidence", "thrift"])
    delta: float = 0.01

    def __post_init__(self) -> None:
        check_known("score", SCORES, *self.must, *self.nice)
        if not self.must or not self.nice or not self.delta > 0:
            raise CardError("search_llm needs scores in 'must' and 'nice', and delta above 0")

    def final(self, outcome: Outcome) -> float:
        must = [SCORES[name](outcome) for name in self.must]
        nice = [SCORES[name](outcome) for name in self.nice]
        return smoothed_mean(must, self.delta) * sum(nice) / len(nice)


def smoothed_mean(scores: Sequence[float], delta: float) -> float:
    """Geometric mean of scores + ``delta``, less ``delta``."""
    return math.exp(sum(math.log(score + delta) for score in scores) / len(scores)) - delta


@dataclass(frozen=True)
class ParallelSearch:
    """Pay the answer in form, parallel queries exactly where the question splits, and few turns.

    Answer: right and in form 1, right 0.9, in form 0.1, else 0. Decomposition: a question that
    splits and was asked in parallel ``parallel``, one that does not and was not ``sequential``,
    else 0. Count: ``count`` · (1 - distance of the searching turns from their target), the target
    being 1 for a question that splits, else at least 2; an episode that never answers is paid for
    these two alone (Zhao et al., ParallelSearch, arXiv 2508.09303; released ``qa_em_format.py``,
    whose counts hold two searches of the prompt besides, with the numbers of the released
    training). The released code looks for parallel queries in the first search, here in any; that
    ``families`` are the questions that split is ours, too.
    """

    registered = "reward:parallel_search"
    systems = ("ParallelSearch",)

    families: Sequence[str] = field(default_factory=lambda: ["comparison", "parallel"])
    parallel: float = 0.45
    sequential: float = 0.15
    count: float = 0.35
    structure: float = 0.1

    def final(self, outcome: Outcome) -> dict[str, float]:
        searches = [t.action for t in outcome.turns if isinstance(t.action, Search) and t.calls]
        splits = outcome.family in self.families
        split = any(len(search.queries) > 1 for search in searches)
        answer = structural(
            right=outcome.em == 1.0,
            valid=in_form(outcome),
            answered=outcome.answered,
            structure=self.structure,
            form=0.0,
        )
        decomposition = 0.0
        if splits == split:
            decomposition = self.parallel if splits else self.sequential
        turns = len(searches)
        distance = abs(turns - 1) if splits else abs(min(turns, 2) - 2)
        return {
            "answer": answer,
            "decomposition": decomposition,
            "count": self.count * (1 - distance),
        }


@dataclass(frozen=True)
class Coda:
    """Pay 6 · F1 - 3 + form of the planner + mean form of the executors + ``refine`` · hit.

    The hit is that what an executor refined holds an accepted answer: a block ``<refine>`` of its
    text, else its report (CoDA and PECO, released code). Form is the share of turns that were
    legal actions, which is ours: the released code pays 1 where a text has every tag (think, task
    and answer, or think, search, refine and answer), else 0. Needs an environment with
    ``delegate=True``; an episode without executors has no form of theirs. Planner and executors are
    one trajectory, so that GRPO's advantage of it is PECO's.
    """

    registered = "reward:coda"
    systems = ("CoDA / PECO",)

    f1: float = 6.0
    shift: float = -3.0
    refine: float = 0.5

    def final(self, outcome: Outcome) -> dict[str, float]:
        contexts: dict[int, list[Turn]] = {}
        for turn in outcome.turns:
            contexts.setdefault(turn.context, []).append(turn)
        planner = contexts.pop(0, [])
        forms = [_form(turns) for turns in contexts.values()]
        refined = [text for turns in contexts.values() for t in turns for text in _refined(t)]
        hit = any(cover_match(text, outcome.answers) for text in refined)
        return {
            "answer": self.f1 * outcome.f1 + self.shift,
            "planner": _form(planner),
            "executors": sum(forms) / len(forms) if forms else 0.0,
            "refine": self.refine if hit else 0.0,
        }


def _form(turns: Sequence[Turn]) -> float:
    legal = sum(not isinstance(turn.action, Invalid) for turn in turns)
    return legal / len(turns) if turns else 0.0


def _refined(turn: Turn) -> list[str]:
    refined = blocks(turn.text, "refine")
    if refined or not isinstance(turn.action, Answer):
        return refined
    return [turn.action.text]


class NamedCall(NamedTuple):
    """A call: its tool and arguments."""

    tool: str
    args: Mapping[str, Any]


@dataclass(frozen=True)
class ToolRL:
    """Pay ``form`` for a well-formed episode, and -3 to 3 for how well its calls match the gold.

    6 S / S_max - 3 with S the multiset Jaccard of the tools' names, plus for every gold call the
    best unused call of its tool: Jaccard of the arguments' names + number of equal values; S_max =
    1 + Σ (1 + number of arguments) (Qian et al., ToolRL, arXiv 2504.13958; released ``rlla.py``).
    Gold calls are ``task.meta["calls"]``, a list of {"tool", "args"}; without, a search for each
    gold query. Texts are compared up to case and blanks. A task with neither pays for calling
    nothing.
    """

    registered = "reward:tool_rl"
    systems = ("ToolRL",)

    form: float = 1.0
    most: float = 3.0

    def final(self, outcome: Outcome) -> dict[str, float]:
        given = [NamedCall(call.tool, call.args) for turn in outcome.turns for call in turn.calls]
        match = call_match(given, gold_calls(outcome.task))
        return {
            "form": self.form if well_formed(outcome) else 0.0,
            "calls": self.most * (2.0 * match - 1.0),
        }


def gold_calls(task: Task) -> list[NamedCall]:
    """A task's gold calls: ``task.meta["calls"]``, or a search for each gold query."""
    if said := task.meta.get("calls"):
        return [NamedCall(call["tool"], call["args"]) for call in said]
    return [NamedCall("search", {"query": query}) for query in task.queries]


def call_match(given: Sequence[NamedCall], gold: Sequence[NamedCall]) -> float:
    """S / S_max in [0, 1]: how well calls match the gold ones."""
    left = list(given)
    score = _jaccard((call.tool for call in given), (call.tool for call in gold))
    for wanted in gold:
        same = [call for call in left if call.tool == wanted.tool]
        if same:
            best = max(same, key=lambda call: alike(call, wanted))
            left.remove(best)
            score += alike(best, wanted)
    return score / (1 + sum(1 + len(call.args) for call in gold))


def alike(call: NamedCall, wanted: NamedCall) -> float:
    """Jaccard index of the arguments' names plus the number of equal values."""
    equal = sum(
        name in call.args and _plain(call.args[name]) == _plain(value)
        for name, value in wanted.args.items()
    )
    return _jaccard(call.args, wanted.args) + equal


def _plain(value: Any) -> Any:
    return " ".join(value.lower().split()) if isinstance(value, str) else value


def _jaccard(one: Iterable[str], other: Iterable[str]) -> float:
    """Jaccard index of two multisets; 1 for two empty ones."""
    a, b = Counter(list(one)), Counter(list(other))  # a mapping would count by its values
    union = sum((a | b).values())
    return sum((a & b).values()) / union if union else 1.0
