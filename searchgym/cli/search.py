"""``searchgym search``: finds passages in documents, without questions or agents."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..plugins import register
from .options import DataDir, Settings, overrides, set_option
from .output import JsonFlag, counted, print_json, say, typed_line, with_examples, working
from .targets import corpus, is_documents

if TYPE_CHECKING:
    from ..corpora.corpus import Corpus
    from ..types import Hit, Ranking

PROMPT = "search › "
_WIDTH = 78
_SNIPPET = 150


@register("search")
@with_examples(
    'searchgym search notes/ "night ferry to Oslo"',
    "searchgym search paper.pdf ablation -k 3 --full",
    "searchgym search hotpotqa Scott Derrickson --engine dense",
    "searchgym search notes/",
)
def search(
    name: Annotated[
        str, typer.Argument(metavar="CORPUS", help="A folder, a file, or a corpus card's name.")
    ],
    query: Annotated[
        list[str] | None, typer.Argument(help="What to look for (default: ask for it).")
    ] = None,
    k: Annotated[int, typer.Option("--k", "-k", min=1, help="Passages per query.")] = 5,
    engine: Annotated[str, typer.Option(help="An engine's name.")] = "bm25",
    full: Annotated[bool, typer.Option("--full", help="Show whole passages.")] = False,
    data_dir: DataDir = None,
    settings: Annotated[Settings, set_option("An option of the engine.")] = None,
    as_json: JsonFlag = False,
) -> int:
    """Search documents: text, Markdown, HTML, PDF, Word, tables; in any language.

    The index of a folder is kept in your cache; only what has changed is read again.
    [bold]--set[/bold] gives options of the engine: -s stemmer=german.
    """
    with working(f"reading {name} …"):
        options = overrides(settings, example="stemmer=german")
        corpus, searches = searchable(name, {"name": engine, **options}, data_dir)
    asked = [" ".join(query)] if query else None
    if as_json and asked is not None:
        print_json([_record(hit) for hit in searches.search(asked, k)[0]])
        return 0
    if asked is None:
        loop(corpus, searches, k=k, full=full)
        return 0
    return 0 if _show(asked[0], searches.search(asked, k)[0], full) else 1


def searchable(
    name: str, engine: dict[str, Any], data_dir: Path | None = None
) -> tuple[Corpus, Any]:
    """The passages and a searcher of what a person names; of documents, from the user's cache."""
    from ..engines.searcher import Searcher

    if is_documents(name):
        from ..engines.folders import FolderIndex

        index = FolderIndex(name, engine)
        return index.corpus, Searcher(index.corpus, index.engine)
    passages = corpus(name, None, data_dir)
    return passages, Searcher(passages, engine)


def loop(corpus: Corpus, searches: Any, *, k: int = 5, full: bool = False) -> None:
    """Ask for queries until the input ends; ``open N`` shows the document of hit N."""
    count = counted(len(corpus), "passage")
    say(f"{count} of {corpus.name}. Type what you look for, 'open 2', or 'quit'.")
    hits: Ranking = ()
    while (line := typed_line(PROMPT)) is not None:
        word, _, rest = line.strip().partition(" ")
        if word in ("quit", "exit") and not rest:
            return
        if word == "open" and rest.isdecimal():
            if 0 < int(rest) <= len(hits):
                page = corpus.page(hits[int(rest) - 1].passage.url)
                print(page.text if page else hits[int(rest) - 1].passage.text)
            else:
                print(f"there are {len(hits)} hits")
        elif line.strip():
            hits = searches.search([line.strip()], k)[0]
            _show(line.strip(), hits, full)


def _show(query: str, hits: Ranking, full: bool) -> bool:
    if not hits:
        print(f"nothing found for {query!r}")
        return False
    for number, hit in enumerate(hits, 1):
        passage = hit.passage
        print(f"{number}. {passage.title}  ({passage.id}, {hit.score:.2f})")
        text = passage.text if full else snippet(passage.text, query)
        lines = text.splitlines() if full else textwrap.wrap(text, _WIDTH - 3)
        print("\n".join(f"   {line}" for line in lines))
        if passage.url.startswith("http"):  # who wrote it stands there
            print(f"   {passage.url}")
    return True


def snippet(text: str, query: str, size: int = _SNIPPET) -> str:
    """Return about ``size`` characters around the first word of the query that a text holds."""
    from ..engines.languages import UnicodeAnalyser

    words = UnicodeAnalyser(stemmer=None, stopwords="english")
    wanted = set(words.terms(query))
    flat = " ".join(text.split())
    at = 0
    for start in range(0, len(flat), size // 3):
        if wanted & set(words.terms(flat[start : start + size // 3])):
            at = max(0, start - size // 3)
            break
    at = flat.rfind(" ", 0, at) + 1 if at else 0
    shown = flat[at : at + size]
    return ("… " if at else "") + shown + (" …" if at + size < len(flat) else "")


def _record(hit: Hit) -> dict[str, Any]:
    return {**hit.passage._asdict(), "score": hit.score}
