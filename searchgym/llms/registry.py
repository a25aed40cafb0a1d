"""Text generators by name (``generator={"name": "vllm", "model": …}``), and the cache of
completions in front of them."""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import numpy as np

from ..batching import run_batch
from ..errors import CardError, DataError, EngineError, unknown
from ..objects import check_fits, load_known, load_object
from ..plugins import Registry
from ..storage.files import parse_json
from ..storage.store import Store
from ..types import Failure, Service
from ..utils.trust import refuse
from .base import Completion, Floats, Generator, GenRequest, Ids, check, request_key

Maker = Callable[..., Generator]

GENERATORS = Registry(
    "generator",
    {
        "transformers": "searchgym.llms.transformers_generator:TransformersGenerator",
        "vllm": "searchgym.llms.vllm_generator:VllmGenerator",
        "openai": "searchgym.llms.openai_generator:OpenAIGenerator",
    },
)
"""Name → class, itself or its import path (read when first used: some need heavy libraries)."""


def build_generator(spec: str | Mapping[str, Any] | Generator) -> Generator:
    """A generator from ``{"name": …, **options}``, an import path, or itself.

    ``name`` is one of ``GENERATORS`` or ``"package.module:Class"``, called with the options;
    ``cache=PATH`` among them puts a completion cache in front. ``EngineError`` for unknown names
    and options, and for objects that are no generators; ``CardError`` where a file names it that
    others may have written.
    """
    if not isinstance(spec, str | Mapping):
        if isinstance(spec, Generator):
            return spec
        raise EngineError(
            "a generator is a mapping with 'name', 'package.module:Class', or an object with run, "
            f"score, cache_key, fingerprint and capabilities; got {type(spec).__name__}"
        )
    options = {} if isinstance(spec, str) else {k: v for k, v in spec.items() if k != "name"}
    name = spec if isinstance(spec, str) else spec.get("name")
    if not isinstance(name, str):
        raise EngineError(f"a generator mapping needs the key 'name', got {dict(spec)!r}")  # type: ignore[arg-type]
    refuse(f"the generator {name!r}")
    cache = options.pop("cache", None)
    if name not in GENERATORS and ":" not in name:
        raise EngineError(unknown("generator", name, GENERATORS) + ", or 'package.module:Class'")
    try:
        if name in GENERATORS:
            maker = load_known(GENERATORS[name])
        else:
            maker = load_object(name)
            check_fits("generator", name, maker, Generator)
        generator = maker(**options)
    except CardError as error:
        raise EngineError(str(error)) from error
    except TypeError as error:
        if "argument" not in str(error):
            raise
        raise EngineError(f"generator {name!r}: {error}") from error
    if not isinstance(generator, Generator):
        raise EngineError(f"{name!r} made a {type(generator).__name__}, which is no text generator")
    return generator if cache is None else Cached(generator, cache)


class Cached:
    """Any generator behind a completion cache in one SQLite file, a ``Store`` of
    :mod:`searchgym.storage.store`.

    Entries are keyed by (the generator's fingerprint, prompt, sampling, key, needs), so weights
    that change never meet old texts, and two tries of one prompt need two keys. A text is on disk
    before it is returned; if two processes draw the same request at once, both return the one
    stored first. Failures are not kept. Scores are passed through. That makes equal requests give
    equal text whatever the generator: the capability ``seed``.
    """

    def __init__(self, inner: Generator, path: str | os.PathLike[str] | Store) -> None:
        self.inner = inner
        self.store = path if isinstance(path, Store) else Store(path)
        self.needs_task = inner.needs_task
        self.hits = 0
        """Requests answered from disk since construction."""
        self.misses = 0

    @property
    def fingerprint(self) -> str:
        return self.inner.fingerprint

    @property
    def capabilities(self) -> frozenset[str]:
        return self.inner.capabilities | {"seed"}

    def cache_key(self, request: GenRequest) -> bytes:
        return request_key(request)

    def run(self, batch: Sequence[GenRequest]) -> list[Completion | Failure]:
        check(self, batch)
        namespace = f"completion/{self.inner.fingerprint}"
        keys = [request_key(request) for request in batch]
        known = dict(zip(keys, self.store.get_many(namespace, keys), strict=True))
        answers: dict[bytes, Completion | Failure] = {
            key: unpack(value) for key, value in known.items() if value is not None
        }
        asked = {
            key: request._replace(needs=request.needs - {"seed"})
            for key, request in zip(keys, batch, strict=True)
            if key not in answers
        }
        self.hits += sum(key not in asked for key in keys)
        self.misses += len(asked)
        if asked:
            new = dict(
                zip(
                    asked,
                    run_batch(cast("Service[Any, Any]", self.inner), list(asked.values())),
                    strict=True,
                )
            )
            kept = {key: pack(c) for key, c in new.items() if isinstance(c, Completion)}
            stands = self.store.add_many(namespace, kept)
            answers.update(new)
            answers.update((key, unpack(value)) for key, value in stands.items())
        return [answers[key] for key in keys]

    def score(self, batch: Sequence[tuple[Ids, Ids]]) -> Sequence[Floats | Failure]:
        return self.inner.score(batch)


def pack(completion: Completion) -> bytes:
    """A completion as JSON; arrays as base64 of little-endian float32, so that no bit changes."""
    fields: dict[str, Any] = completion._asdict()
    for name in ("logp", "entropy"):
        if fields[name] is not None:
            raw = np.ascontiguousarray(fields[name], "<f4").tobytes()
            fields[name] = base64.b64encode(raw).decode()
    for name in ("ids", "ends"):
        if fields[name] is not None:
            fields[name] = [int(i) for i in fields[name]]
    return json.dumps(fields).encode()


def unpack(value: bytes) -> Completion:
    """The completion ``pack`` wrote. ``DataError`` if it is something else."""
    try:
        fields = parse_json(value, "it")
        for name in ("logp", "entropy"):
            if fields[name] is not None:
                fields[name] = np.frombuffer(base64.b64decode(fields[name]), "<f4")
        for name in ("ids", "ends"):
            if fields[name] is not None:
                fields[name] = tuple(fields[name])
        return Completion(**fields)
    except (ValueError, TypeError, KeyError) as error:
        raise DataError(f"a cached completion cannot be read: {error}. Delete the cache") from error
