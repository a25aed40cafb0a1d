"""What the tests of several generators ask and look at. vLLM's environment runs this, too."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from searchgym.llms.base import Completion, Generator, GenRequest, Sampling


def ragged(prompts: Sequence[str], **sampling: Any) -> list[GenRequest]:
    """Each prompt with its own length limit and key."""
    return [
        GenRequest(p, Sampling(**{"max_tokens": 8 + 5 * i, **sampling}), key=i)
        for i, p in enumerate(prompts)
    ]


def done(answers: Any) -> list[Completion]:
    """The answers, none of which has failed."""
    assert all(isinstance(a, Completion) for a in answers), answers
    return list(answers)


def check_stops(
    generator: Generator, prompts: Sequence[str], beside: Sequence[GenRequest] = ()
) -> list[Completion]:
    """Against the same texts without stops: cut right after the stop, its whole token kept.

    ``beside`` is in the batch of every stopped text; returns those texts.
    """
    stopped: list[Completion] = []
    for i, whole in enumerate(done(generator.run(ragged(prompts, max_tokens=40)))):
        for size in (1, 2, 3):
            places = range(len(whole.text) // 3, len(whole.text) - size)
            clean = [j for j in places if "�" not in whole.text[j : j + size]]
            if not clean:
                continue
            stop = whole.text[clean[0] : clean[0] + size]
            request = ragged(prompts, max_tokens=40, stop=("never there", stop))[i]
            got = done(generator.run([request, *beside]))[0]
            end = whole.text.index(stop) + size
            assert (got.text, got.finish) == (whole.text[:end], "stop")
            ids, ends = got.ids or (), got.ends or ()
            assert ids == (whole.ids or ())[: len(ids)]
            assert ends[-1] == end
            assert all(e < end for e in ends[:-1]), "no token wholly past the stop"
            assert len(got.logp) == len(ids)  # type: ignore[arg-type]
            stopped.append(got)
    assert len(stopped) > 3
    return stopped


def largest_gap(sampler: Generator, scorer: Generator, requests: Sequence[GenRequest]) -> float:
    """Largest difference, in nats, between the log-probabilities that ``sampler`` gives the tokens
    it writes after prompts of ids and those that ``scorer`` gives the same tokens."""
    written = done(sampler.run(requests))
    scores = scorer.score([(r.prompt, c.ids) for r, c in zip(requests, written, strict=True)])  # type: ignore[misc]
    return max(float(np.abs(c.logp - s).max()) for c, s in zip(written, scores, strict=True))  # type: ignore[operator]


def free(monkeypatch: pytest.MonkeyPatch, room: Mapping[str, int]) -> None:
    """Leave folders so many bytes, by how their names begin."""

    def usage(folder: str | Path) -> SimpleNamespace:
        return SimpleNamespace(free=next(n for f, n in room.items() if str(folder).startswith(f)))

    monkeypatch.setattr(shutil, "disk_usage", usage)
