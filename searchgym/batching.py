"""Calling a service once for many requests."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .errors import EngineError
from .types import Failure, Service


def run_batch(service: Service[Any, Any], batch: Sequence[Any]) -> Sequence[Any]:
    """Answers in order; requests with equal ``cache_key`` are asked once (``None``: never shared).

    A timeout or connection error of the whole call becomes a ``Failure`` per item; anything else is
    a defect and propagates. ``EngineError`` if the service returns another number of answers.
    """
    first: dict[bytes, int] = {}
    asked: list[Any] = []
    where: list[int] = []
    for request in batch:
        key = service.cache_key(request)
        if key is None:
            where.append(len(asked))
            asked.append(request)
        elif (at := first.setdefault(key, len(asked))) == len(asked):
            where.append(at)
            asked.append(request)
        else:
            where.append(at)
    answers: Sequence[Any]
    try:
        answers = service.run(asked)
    except TimeoutError as error:
        answers = [Failure("timeout", str(error))] * len(asked)
    except (ConnectionError, OSError) as error:
        answers = [Failure("unavailable", str(error))] * len(asked)
    if len(answers) != len(asked):
        raise EngineError(
            f"{type(service).__name__}.run gave {len(answers)} answers for {len(asked)} requests"
        )
    return answers if len(asked) == len(batch) else [answers[i] for i in where]
