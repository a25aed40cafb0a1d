"""Pass@k of a model that is its own search engine: ``python -m tests.benchmarks.self_search MODEL``

The same weights answer the same questions in three ways: closed book (the answer at once), by
self-search (the model writes its own results), and by self-search whose results a real engine
writes (sim-to-real). The claim of SSRL (arXiv 2508.10874) is that pass@k of self-search grows
steadily with k. A model learns the form with ``SelfWritingOracle``, the renderer ``plain`` and, to
write results too, ``demonstrations.results=true``; ask closed book of the model before that.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

import searchgym  # noqa: F401 (registers)
from searchgym.batching import run_batch
from searchgym.core import Episode
from searchgym.envs import SearchEnv, search_env
from searchgym.evaluation import episode_for, mean_interval, pass_at_k, spread
from searchgym.llms import GenRequest, Sampling, TransformersGenerator
from searchgym.seeding import derive
from searchgym.types import Failure, Task
from searchgym_agents.self_search import Prompt, SimToReal

SETS = ("searchgym/NQ-v0", "searchgym/TriviaQA-v0")
WAYS = ("closed book", "self-search", "sim-to-real")
SHORT = Sampling(max_tokens=32, stop=("</answer>",))
"""Of an answer without thoughts or searches."""
OPENED = "<answer>"


class Asked:
    """Questions of an environment, each with its prompt, and what is right."""

    def __init__(self, name: str, count: int, samples: int, seed: int) -> None:
        self.env = search_env(gym.make(name, engine="self", dialect="search_r1"))
        self.tasks: list[Task] = spread(self.env.tasks, count)
        self.engine = search_env(gym.make(name)).engine
        self.prompts = [
            Prompt("".join(s.text for s in request.segments), derive(seed, name, task.id, sample))
            for task in self.tasks
            for request in opening(self.env, task).requests()
            for sample in range(samples)
        ]
        self.samples = samples

    def scores(self, texts: Sequence[str]) -> np.ndarray[Any, Any]:
        """(questions, samples) exact match of self-search texts."""
        found = []
        for place, text in enumerate(texts):
            episode = opening(self.env, self.tasks[place // self.samples])
            episode.act(text)
            outcome = episode.outcome()
            found.append(0.0 if outcome is None else outcome.parts["em"])
        return np.array(found).reshape(len(self.tasks), self.samples)


def opening(env: SearchEnv, task: Task) -> Episode:
    """The episode of a question before its first turn."""
    return episode_for(env, task, 0)


def closed_book(generator: TransformersGenerator, asked: Asked) -> list[str]:
    """Texts that answer at once."""
    requests = [GenRequest(p.text + OPENED, SHORT, p.key) for p in asked.prompts]
    return [
        OPENED + ("" if isinstance(reply, Failure) else reply.text)
        for reply in run_batch(generator, requests)
    ]


def written(
    generator: TransformersGenerator, asked: Asked, real: bool, max_tokens: int
) -> list[str]:
    """Self-search texts; ``real``: all results are the engine's."""
    writer = SimToReal(
        generator,
        asked.engine if real else None,
        real="all" if real else 0,
        sampling=Sampling(max_tokens),
        snippet_chars=420,
        max_searches=4,
    )
    return ["" if isinstance(r, Failure) else r.text for r in writer.run(asked.prompts)]


def curve(scores: np.ndarray[Any, Any]) -> dict[str, Any]:
    """pass@k with its interval over questions, k doubling up to the number of samples."""
    count = scores.shape[1]
    out: dict[str, Any] = {}
    for k in (k for k in (1, 2, 4, 8, 16, 32, 64) if k <= count):
        each = [pass_at_k(count, int(row.sum()), k) for row in scores]
        mean = mean_interval(np.array(each), unit=True)
        out[str(k)] = [mean.mean, mean.low, mean.high]
    return out


def main(given: Sequence[str] | None = None) -> dict[str, Any]:
    """Measure as the command line says; the report is written after each way of each set."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", help="a folder")
    parser.add_argument("--envs", default=",".join(SETS), help="ids, with commas between")
    parser.add_argument("--ways", default=",".join(WAYS), help="with commas between")
    parser.add_argument("--questions", type=int, default=100)
    parser.add_argument("--samples", type=int, default=32)
    parser.add_argument("--real-samples", type=int, default=8, help="with a real engine")
    parser.add_argument("--max-tokens", type=int, default=512, help="of a self-search text")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args(given)
    generator = TransformersGenerator(options.model)
    report: dict[str, Any] = {}
    for name in options.envs.split(","):
        report[name] = {}
        for way in options.ways.split(","):
            samples = options.real_samples if way == "sim-to-real" else options.samples
            asked = Asked(name, options.questions, samples, options.seed)
            begun = time.perf_counter()
            if way == "closed book":
                texts = closed_book(generator, asked)
            else:
                texts = written(generator, asked, way == "sim-to-real", options.max_tokens)
            scores = asked.scores(texts)
            report[name][way] = {
                "questions": len(asked.tasks), "samples": samples, "pass@k": curve(scores),
                "right": scores.sum(1).astype(int).tolist(), "answered": share(texts),
                "seconds": time.perf_counter() - begun, "texts": texts[:4],
            }  # fmt: skip
            print(name, way, json.dumps(report[name][way]["pass@k"]), flush=True)
            if options.out is not None:
                options.out.write_text(json.dumps(report), encoding="utf-8")
    return report


def share(texts: Sequence[str]) -> float:
    """Share of the texts that end with an answer."""
    return float(np.mean([text.rstrip().endswith("</answer>") for text in texts]))


if __name__ == "__main__":
    main()
