"""MaskSearch (arXiv 2505.20285): paragraphs with masked spans to fill in by searching.

The family ``ramp`` masks one to four spans of a real paragraph or a world's page; ``masked_fill``
is the reward of its answers; the expert ``masksearch`` plays planner, rewriter and observer, whose
episodes are demonstrations. The curriculum ``masksearch`` with ``by="masks"`` orders the tasks.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar, NamedTuple

import numpy as np

from searchgym.corpora.corpus import Corpus
from searchgym.envs.search import SearchEnv
from searchgym.errors import CardError, TaskError
from searchgym.rewards import Outcome
from searchgym.scoring.sets import SEPARATOR, read_set
from searchgym.seeding import stream
from searchgym.tasks.context import Context, Path, joined_answers
from searchgym.tasks.draft import Asked, Draft, Sketch
from searchgym.tasks.grounded.build import split_of
from searchgym.tasks.grounded.language import language
from searchgym.tasks.grounded.pages import Pages
from searchgym.tasks.grounded.questions import Questions
from searchgym.tasks.wording import Voice
from searchgym.text import exact_match, normalise_answer
from searchgym.types import ABSTAIN, Action, Answer, Passage, Search, Task, TurnRequest

from ..experts.base import TagExpert

MOST, FIRST, LONGEST = 4, 3, 1_500
"""Masks; hits in which a paragraph must be found by its title; characters of a paragraph."""
ASKED = "Fill in what is masked in this text; give what each mask stands for, in order: "
_MASK = re.compile(r"\[mask(?: [1-4])?\]")
_NEAR = 24
"""Characters on either side of a mask by which its place is found in another text (ours)."""
Spans = Sequence[tuple[int, int]]


class Masked(NamedTuple):
    """A paragraph with masks, what they hide, and where that stood."""

    text: str
    values: tuple[str, ...]
    spans: Spans = ()

    def restored(self) -> str:
        """The paragraph as it was, byte for byte."""
        values = iter(self.values)
        return _MASK.sub(lambda _: next(values), self.text)


def mask(text: str, spans: Spans) -> Masked:
    """The text with these spans, in order, masked."""
    out, end = "", 0
    for number, (start, stop) in enumerate(spans, 1):
        out += text[end:start] + ("[mask]" if len(spans) == 1 else f"[mask {number}]")
        end = stop
    return Masked(out + text[end:], tuple(text[a:b] for a, b in spans), spans)


def mask_count(spans: int, rng: np.random.Generator) -> int:
    """Number of a paragraph's spans to mask: of one or two, 1 to all at random; of three,
    three; of more, four (``gen_qa.py`` of the released code)."""
    return int(rng.integers(1, spans + 1)) if spans <= 2 else min(spans, MOST)


def chosen(text: str, spans: Spans, masks: int, rng: np.random.Generator) -> Spans:
    """``masks`` spans, drawn by their number of words; a number weighs as much as the longest.
    Without replacement (ours: the released code may draw one twice, and then masks fewer)."""
    words = [len(text[a:b].split()) for a, b in spans]
    numbers = [any(c.isdigit() for c in text[a:b]) for a, b in spans]
    weights = np.array([max(words) if n else w for w, n in zip(words, numbers, strict=True)])
    drawn = rng.choice(len(spans), masks, replace=False, p=weights / weights.sum())
    return [spans[place] for place in sorted(drawn)]


def alone(text: str, title: str, spans: Spans) -> Spans:
    """Those of the spans whose words stand once in a text, and neither in its title nor first."""
    own, whole = normalise_answer(title), f" {normalise_answer(text)} "
    kept: list[tuple[int, int]] = []
    for start, end in sorted(set(spans)):
        bare = normalise_answer(text[start:end])
        apart = not kept or any(map(str.isalpha, text[kept[-1][1] : start]))  # words between masks
        once = whole.count(f" {bare} ") == 1 == text.count(text[start:end])
        if bare and start and once and apart and bare not in own and own not in bare:
            kept.append((start, end))
    return kept


def text_spans(passage: Passage, rules: Any, rng: np.random.Generator) -> Spans:
    """Spans of a passage that can be masked: names, dates, numbers, the noun of its type."""
    page = (pages := Pages([passage], rules)).all[0]
    ask, text = Questions(pages, rng), passage.text
    values = [s[a:b] for s in page.sentences for a, b in ask.spans(s, page)]
    values += [page.noun] if page.about >= 0 and page.group else []
    return [(text.find(v), text.find(v) + len(v)) for v in values if v and v in text]


def found_in(masked: str, text: str) -> list[str]:
    """Words of a text where a masked one has its masks, each "" where that is not found: the
    place is found by the words beside the mask (ours)."""
    pieces, text = _MASK.split(" ".join(masked.split())), " ".join(text.split())
    values, at = [], 0
    for number, (before, after) in enumerate(pairwise(pieces), 2):
        left = before if text.find(before, at) >= 0 else before[-_NEAR:]
        start = text.find(left, at)
        begin, last = start + len(left), number == len(pieces) and len(after) < _NEAR
        right = after if text.find(after, begin) >= 0 else after[:_NEAR]
        end = text.rfind(right, begin) if last else text.find(right, begin)
        values.append(text[begin:end] if min(start, end) >= 0 else "")
        at = end if values[-1] else at
    return values


@dataclass(frozen=True)
class Ramp:
    """Paragraphs to fill in, of generated worlds and of any corpus of text.

    In a world facts of the page's own subject are masked, and the solver proves each; in text what
    :func:`text_spans` finds. What occurs twice, or in the title, is left alone.
    """

    registered = "task family:ramp"
    proofs: ClassVar[bool] = True

    masks: int = 0
    """Masks of every task, 1 to 4; 0 draws them as the paper does (:func:`mask_count`)."""

    def __post_init__(self) -> None:
        if self.masks not in range(MOST + 1):
            raise TaskError(f"masks must be 0 to {MOST}, got {self.masks!r}")

    def _masked(self, page: Passage, spans: Spans, rng: np.random.Generator) -> Masked | None:
        spans = alone(page.text, page.title, spans)
        if len(spans) < max(1, self.masks) or len(page.text) > LONGEST:
            return None
        masks = self.masks or mask_count(len(spans), rng)
        return mask(page.text, chosen(page.text, spans, masks, rng))

    def propose(self, ctx: Context, rng: np.random.Generator, turn: int) -> Draft | None:
        """A page of a world, facts of its subject that have one value masked."""
        entity = ctx.any_entity(rng)
        place = int(ctx.corpus.page_of[entity])
        steps = {s.fact: s for s in ctx.steps(entity) if not s.inverse}
        stated = [s for s in ctx.corpus.stated_in(place) if s.fact in steps]
        at = {(s.start, s.end): steps[s.fact] for s in stated}
        masked = self._masked(page := ctx.corpus[place], list(at), rng)
        if masked is None or ctx.names.given(entity) is None:
            return None
        path = [at[span] for span in masked.spans]
        if not ctx.hidden((entity,), [s.value for s in path if ctx.leads_on(s)]):
            return None
        sketch = Sketch(ctx)
        nodes = [sketch.path(Path(entity, (step,))) for step in path]
        told = [ctx.names.value_answers(s.property, s.value) for s in path]
        forms = [(v, *(f for f in of if f != v)) for v, of in zip(masked.values, told, strict=True)]

        def render(voice: Voice) -> str:
            voice.ordered = len(forms) > 1
            return _question(masked.text, page.title)

        return sketch.finish(
            "ramp", shape=f"ramp-{len(forms)}", answers=joined_answers(forms), hops=1,
            branches=len(forms), operation=f"join:{','.join(nodes)}", meta=_meta(masked),
            render=render, items=tuple(forms) if len(forms) > 1 else (),
        )  # fmt: skip

    def ask(self, corpus: Corpus, number: int, *, split: str, search: Any) -> Asked:
        """Paragraphs of a corpus that are found by their title, one task each."""
        rng, rules = stream(0, "ramp", split, self.masks), language()
        tasks: list[Task] = []
        for place in rng.permutation(len(corpus)).tolist():
            page = corpus[place]
            if len(tasks) == number:
                break
            if split_of(page.title) != split or len(page.text) > LONGEST:
                continue
            masked = self._masked(page, text_spans(page, rules, rng), rng)
            hits = search([page.title], FIRST)[0] if masked else ()
            if masked and page.id in [hit.passage.id for hit in hits]:
                key = f"{corpus.name}-ramp-{split}-{self.masks}-{page.id}"
                forms = [(value,) for value in masked.values]
                items = tuple(forms) if len(forms) > 1 else ()
                question, answers = _question(masked.text, page.title), joined_answers(forms)
                task = Task(key, question, answers, (page.id,), (page.title,), items=items,
                            ordered=bool(items), meta=_meta(masked))  # fmt: skip
                tasks.append(task)
        return Asked(tasks, corpus)


def _question(text: str, title: str) -> str:
    """The masked text, its title before it where it does not stand in it."""
    return ASKED + (text if title in text else f"{title}. {text}")


def _meta(masked: Masked) -> dict[str, Any]:
    return {"masks": len(masked.values), "masked": masked.text, "values": list(masked.values)}


@dataclass(frozen=True)
class MaskedFill:
    """``answer`` · measure + ``form`` · format of a filled-in text (weights ours).

    An answer is the list of what the masks hide, or the text restored, in which each mask is read
    off between the words beside it. Its format is right with one part a mask, or if nothing but
    the masks was changed. The measure is ``"em"``, the mean exact match a mask (ours), or the
    paper's ``"recall"`` of the masked words, which an answer of all words there are games.
    """

    registered = "reward:masked_fill"
    systems: ClassVar[tuple[str, ...]] = ("MaskSearch",)

    measure: str = "em"
    answer: float = 0.9
    form: float = 0.1

    def __post_init__(self) -> None:
        if self.measure not in ("em", "recall"):
            raise CardError(f"measure is em or recall, got {self.measure!r}")

    def final(self, outcome: Outcome) -> float:
        """The reward of an episode of the family ``ramp``; 0 without an answer."""
        asked = outcome.answered and "masked" in outcome.meta
        return self.score(outcome.task, outcome.answer) if asked else 0.0

    def score(self, task: Task, said: str) -> float:
        """The reward of a text as the answer to a task."""
        masked, forms = str(task.meta["masked"]), task.items or (task.answers,)
        parts = found_in(masked, said)
        if any(parts):
            restored = Masked(masked, tuple(parts)).restored()
            kept = all(parts) and " ".join(said.split()).endswith(" ".join(restored.split()))
        else:
            parts = read_set(said, [f for of in forms for f in of]) if task.items else [said]
            kept = len(parts) == len(forms)
        if self.measure == "em":
            pairs = zip(parts, forms, strict=True) if len(parts) == len(forms) else ()
            measured = sum(exact_match(part, of) for part, of in pairs) / len(forms)
        else:
            gold = normalise_answer(" ".join(task.meta["values"])).split()
            measured = sum(word in normalise_answer(said).split() for word in gold) / len(gold)
        return self.answer * measured + self.form * float(kept)


class MaskSearchTeam(TagExpert[Task]):
    """Plays three roles, none of which knows the answers: the planner says which mask is sought,
    the rewriter writes up to four queries for it, and the observer reads the masks off what was
    shown. It abstains where nothing is found.

    Raises:
        TaskError: the environment asks nothing of the family ``ramp``.
        DialectError: its dialect is no tag dialect.
    """

    registered = "expert:masksearch"
    fingerprint = "masksearch-team"

    def __init__(self, env: SearchEnv) -> None:
        super().__init__(env)
        if not self._ways:
            raise TaskError("the masksearch expert fills in masks: ask tasks={'ramp': 100}")

    def _known(self, env: SearchEnv) -> Iterator[tuple[Task, Task]]:
        yield from ((task, task) for task in env.tasks if "masked" in task.meta)

    def _act(self, request: TurnRequest) -> str:
        task = self._way(request.segments)
        shown = [hit.passage.text for segment in request.segments for hit in segment.hits]
        reads = [found_in(str(task.meta["masked"]), text) for text in shown]
        read = max(reads, key=lambda values: sum(map(bool, values)), default=[""])
        thought = "; ".join(f"mask {i}: {value}" for i, value in enumerate(read, 1) if value)
        action: Action = Answer(SEPARATOR.join(read) if any(read) else ABSTAIN)
        if not all(read) and request.turns_left > 1 and request.queries_left != 0:
            sought, tried = read.index(""), self._tried(request)
            queries = rewritten(task.question.removeprefix(ASKED), sought)
            searches = [self._dialect.canonical(Search((query,))) for query in queries]
            if left := [search for search in searches if search not in tried]:
                action, thought = left[0], f"{thought}; mask {sought + 1} is sought"
        return self._dialect.render_action(action, thought.removeprefix("; "))


def rewritten(masked: str, number: int) -> list[str]:
    """Queries for a mask: how the text begins, the words about the mask, names, the text."""
    pieces = _MASK.split(masked)
    words = " ".join(pieces).split()
    near = f"{pieces[number][-80:]} {pieces[number + 1][:80]}"
    names = [word for word in words if word[0].isupper()]
    queries = (words[:12], near.split(), names, words[:60])
    return [query for query in dict.fromkeys(map(" ".join, queries)) if query]
