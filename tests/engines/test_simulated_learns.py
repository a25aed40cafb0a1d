"""A really small language model learns the engine's part in under a minute: it copies the answer of
new questions into useful documents, and keeps it out of noisy ones.

The full figures, over generated encyclopedias: ``tests/benchmarks/test_simulator.py``.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from searchgym.corpora import Corpus
from searchgym.engines import build_engine
from searchgym.engines.simulated import SimulatedEngine
from searchgym.engines.simulated.data import measure, simulator_pairs
from searchgym.llms import SftConfig, SftTrainer, encode, train, untrained
from searchgym.seeding import stream
from searchgym.types import Passage, Task

pytestmark = pytest.mark.contract

FORMS = ("{s} was founded by {o}.", "{o} is the founder of {s}.", "It was {o} who founded {s}.")
WORDS = 10


def facts(seed: int, n: int) -> tuple[Corpus, list[Task]]:
    """``n`` places and founders, drawn from 144 names anew each time: whoever founded a place in
    one draw did not in another, so that an answer can only be read off the prompt."""
    draw = stream(seed, "facts")
    names = [
        f"{a}{b}{c}" for a in "BDGKMNRT" for b in ("a", "e", "i", "o", "u", "ai") for c in "lrn"
    ]
    passages, tasks = [], []
    for i in range(n):
        s, o = (names[j] for j in draw.permutation(len(names))[:2])
        text = FORMS[int(draw.integers(len(FORMS)))].format(s=s, o=o)
        passages.append(Passage(f"p{i:04}", s, text, f"u:{i}"))
        tasks.append(Task(f"t{i}", f"Who founded {s}?", (o,), (f"p{i:04}",), (s,), "simple"))
    return Corpus(f"places-{seed}", passages), tasks


@pytest.mark.slow  # a whole training
@pytest.mark.timeout(900)
def test_it_learns_to_copy_the_answer(tmp_path: Path) -> None:
    corpus, tasks = facts(0, 2000)
    engine = build_engine("bm25", corpus)
    pairs = [
        (p.prompt, p.completion)
        for p in simulator_pairs(
            tasks, corpus, engine, docs=1, words=WORDS, noise=0.4, questions=False
        )
    ]
    model, tokenizer = untrained(pairs, tmp_path, vocabulary=500, width=64)
    config = SftConfig(steps=250, batch=24, warmup=10)
    trainer = SftTrainer(model, encode(tokenizer, pairs, 128), config)
    train(trainer, tokenizer, tmp_path)
    simulator = SimulatedEngine(
        {"name": "transformers", "model": str(tmp_path), "device": "cpu"},
        words=WORDS, per_call=1, max_tokens=60,
    )  # fmt: skip
    _, unseen = facts(1, 80)
    known = {(t.question, t.answers) for t in tasks}
    unseen = [t for t in unseen if (t.question, t.answers) not in known]
    useful, noisy = measure(simulator, unseen, k=1)
    print(useful, noisy, f"{trainer.seconds:.0f} s of training")
    assert useful.per_document >= 0.6
    assert noisy.per_document <= 0.1
