"""Text generators by name: what ``generator={"name": "vllm", "model": …}`` means."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ..errors import CardError, EngineError, unknown
from ..objects import check_fits, load_known, load_object
from ..plugins import Registry
from ..utils.trust import refuse
from .base import Generator

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
    if cache is None:
        return generator
    from .cache import Cached

    return Cached(generator, cache)
