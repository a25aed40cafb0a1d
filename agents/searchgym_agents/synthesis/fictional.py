"""FictionalHot (ReSeek, arXiv 2510.00568): a real set's questions about invented things.

The names of some questions and of the passages that answer them are exchanged for invented ones,
and the changed passages are put into the ordinary corpus: what a model remembers is of no use, and
what it has to search is as large as before. (The paper's language model rewrites questions and
writes pages; here words are exchanged one for one.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from searchgym.corpora.corpus import Corpus
from searchgym.corpora.data import load_set
from searchgym.corpora.substitute import substitute
from searchgym.errors import TaskError
from searchgym.seeding import stream
from searchgym.tasks.draft import Asked
from searchgym.text import covers, normalise_answer
from searchgym.types import Passage, Task


@dataclass(frozen=True)
class Fictional:
    """Questions of a real set under other names, asked of any corpus.

    Those are asked of whose pages every title was exchanged, and whose answer was, and stands on
    one; yes, no, numbers and words that are also written small stay, and could be guessed.
    """

    registered = "task family:fictional"

    of: str = ""
    """The set whose questions are taken; by default the corpus' own."""
    seed: int = 0
    """Fixes the invented names."""

    def propose(self, *_: Any) -> None:
        """Refuse: a generated world's names are invented already."""
        raise TaskError("fictional questions are a real set's: corpus='hotpotqa'")

    def ask(self, corpus: Corpus, number: int, *, split: str, search: Any) -> Asked:
        """Questions of the set's split, and the corpus with their pages inserted."""
        source, tasks = load_set(self.of or corpus.name, "public" if split == "test" else split)
        order = stream(self.seed, "fictional").permutation(len(tasks)).tolist()
        some = [tasks[i] for i in order if tasks[i].evidence and not tasks[i].should_abstain]
        some = some[: 3 * number]
        gold = dict.fromkeys(e for task in some for e in task.evidence)
        more = () if self.of in ("", corpus.name) else corpus
        made = substitute(
            Corpus(source.name, map(source.passage, gold)),
            some,
            seed=self.seed,
            among=(*source, *more),
        )
        changed = {p.id: p._replace(id=f"fictional-{p.id}") for p in made.corpus}
        asked: list[Task] = []
        for old, new in zip(some, made.tasks, strict=True):
            inserted = [changed[e] for e in new.evidence]
            same = {source.passage(e).title for e in old.evidence} & {p.title for p in inserted}
            if len(asked) < number and not same and _fits(old, new, inserted):
                ids, titles = (tuple(p.id for p in inserted), tuple(p.title for p in inserted))
                asked.append(replace(new, id=f"fictional-{old.id}", evidence=ids, queries=titles))
        needed = {e for task in asked for e in task.evidence}
        pages = [page for page in changed.values() if page.id in needed]
        return Asked(asked, Corpus(f"{corpus.name}-fictional", [*corpus, *pages]))


def _fits(old: Task, new: Task, pages: Sequence[Passage]) -> bool:
    """Check that every accepted answer is another one now, and that a page states one."""
    before = {normalise_answer(answer) for answer in old.answers}
    after = [normalise_answer(answer) for answer in new.answers]
    texts = [normalise_answer(f"{page.title} {page.text}") for page in pages]
    stated = any(covers(text, answer) for text in texts for answer in after)
    return stated and before.isdisjoint(after)
