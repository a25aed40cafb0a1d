"""Messages about evaluated agents besides scores: errors, lost servers, differing questions."""

from __future__ import annotations

import sys
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from ..errors import EpisodeError, EvaluationError, SearchGymError
from ..evaluation.comparable import asked_differently, told
from ..evaluation.result import EvalResult
from .output import say

_PACKAGE = Path(__file__).resolve().parent.parent
_CALLER = _PACKAGE / "evaluation" / "meter.py"
"""File from which all evaluated agents are called."""


@contextmanager
def agent_errors(name: str) -> Iterator[None]:
    """Turn an exception that an agent raises into one line; others pass.

    Raises:
        EvaluationError: the agent raised, with the place in its own code, or returned what is no
            text.
    """
    try:
        yield
    except EpisodeError as error:
        raise EvaluationError(f"agent {name!r}: {error}") from error
    except SearchGymError:
        raise
    except Exception as error:
        frames = traceback.extract_tb(sys.exc_info()[2])
        files = [Path(frame.filename).resolve() for frame in frames]
        if _CALLER not in files[:-1]:
            raise  # not the agent's
        own = [f for f, path in zip(frames, files, strict=True) if _PACKAGE not in path.parents]
        where = f" ({own[-1].filename}:{own[-1].lineno})" if own else ""
        if "out of memory" in str(error):
            raise EvaluationError(
                f"agent {name!r}: the device is out of memory. Fewer episodes at a time need less: "
                "searchgym eval … --batch 32"
            ) from error
        raise EvaluationError(
            f"agent {name!r} raised {type(error).__name__}: {error}{where}; 'searchgym "
            "--traceback …' shows all of it"
        ) from error


def report_failures(name: str, results: Sequence[EvalResult]) -> None:
    """Name what the infrastructure failed at.

    Raises:
        EvaluationError: no episode was played to its end.
    """
    rows = [row for result in results for row in result.rows]
    lost = [row for row in rows if row.infra_error]
    if not lost:
        return
    (reason, _), *_ = Counter(row.failure or "no reason given" for row in lost).most_common(1)
    told = f"{name}: {len(lost)} of {len(rows)} episodes were lost to the infrastructure ({reason})"
    if len(lost) == len(rows):
        raise EvaluationError(told)
    say(told)


def say_if_asked_differently(results: Sequence[EvalResult]) -> None:
    """Name what differs in how language models of one evaluation were asked."""
    first, *others = results
    for other in others:
        if differs := asked_differently(other, first):
            say(f"{other.agent} and {first.agent} were asked differently: {told(differs)}; -A sets "
                "it for all agents")  # fmt: skip
