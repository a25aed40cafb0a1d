"""Nothing mixes tensors of two devices: generation, training and every recipe, on a pretended
GPU (``tests.pretend``)."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch

from searchgym.llms import (
    Completion,
    GenRequest,
    Sampling,
    SftConfig,
    SftTrainer,
    TransformersGenerator,
    encode,
)
from searchgym.policies import TOKEN_MEASURES, TrainableLM, TrainingRow
from searchgym.rl.recipe import read, shipped
from tests.llms import tiny
from tests.pretend import GPU, marked, pretending, put
from tests.rl.as_shipped import trainer

WORDS = tiny.tokenizer()
PROMPTS = ("The capital of Paris", "The river", "The founder of Velmora is Ana Bell.")
SAMPLINGS = (
    Sampling(max_tokens=9, temperature=0.8), Sampling(max_tokens=5, top_k=5, top_p=0.9),
    Sampling(max_tokens=7, temperature=0.0),
)  # fmt: skip


def requests() -> list[GenRequest]:
    return [GenRequest(p, s, i) for i, (p, s) in enumerate(zip(PROMPTS, SAMPLINGS, strict=True))]


def test_the_pretended_gpu_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    with pretending(monkeypatch):
        there, here = torch.zeros(3, device="cuda"), torch.zeros(3)
        assert (there.device, here.device.type) == (GPU, "cpu")
        assert marked(there + torch.tensor(1.0))
        assert marked(here.to("cuda") + there)
        assert not marked(there.cpu())
        assert marked(there[torch.tensor([1])])
        for wrong in (
            lambda: there + here, lambda: here[there.long()], lambda: torch.cat([there, here]),
            lambda: torch.where(here > 0, there, there),
        ):  # fmt: skip
            with pytest.raises(RuntimeError, match="pretended"):
                wrong()
        with pytest.raises(TypeError, match="pretended"):
            there.numpy()


@pytest.mark.parametrize("kind", ["qwen2", "llama", "lfm2"])
def test_generation(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model = tiny.model(kind)
    alone = TransformersGenerator(model, WORDS, reuse_tokens=1000).run(requests())
    with pretending(monkeypatch):
        generator = TransformersGenerator(put(model), WORDS, reuse_tokens=1000)
        assert generator.run(requests()) is not None
        again = [
            GenRequest((*generator.encode(r), *(a.ids or ())), r.sampling, r.key)
            for r, a in zip(requests(), alone, strict=True)
            if isinstance(a, Completion)
        ]
        assert all(isinstance(a, Completion) for a in generator.run(again))
        scores = generator.score([((1, 2, 3), (4, 5)), ((7,), (8, 9, 10))])
        assert all(isinstance(s, np.ndarray) for s in scores)
        generator.update_weights(model.state_dict())
        assert generator.fingerprint.startswith("transformers:")


@pytest.mark.parametrize("autocast", [None, "bfloat16"])
def test_scores_and_supervised_updates(
    autocast: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    lm = TrainableLM(tiny.model("llama"), WORDS, reference=True, autocast=autocast, temperature=0.7)
    other, rows = tiny.model("qwen2"), trainer_rows()
    with pretending(monkeypatch):
        put(lm.model)
        put(lm._frozen)
        found = lm.score(rows, entropy=True, measures=TOKEN_MEASURES)
        assert marked(found.logp)
        assert all(map(marked, found.measures.values()))
        assert marked(lm.reference_logp(rows))
        found.logp.sum().backward()
        lm.blend_reference(0.5)
        assert not any(map(marked, (*lm.reference_state().values(), *lm.merged().values())))
        lm.load_state_dict(lm.state_dict())
        lm.load_reference_state(lm.reference_state())
        put(other)
        examples = encode(WORDS, [(line[:20], line[20:]) for line in tiny.LINES[:8]], 64)
        for config in (
            SftConfig(steps=4, batch=4, muon_lr=0.02), SftConfig(steps=4, batch=4, tokens=120),
        ):  # fmt: skip
            dtype = torch.bfloat16 if autocast else torch.float32
            assert SftTrainer(other, examples, config, dtype).advance().loss > 0


def trainer_rows() -> list[TrainingRow]:
    rows = []
    for length in (9, 6, 14):
        sampled = np.arange(length) >= 4
        zeros = np.zeros(length, np.int64)
        rows.append(
            TrainingRow(
                f"t{length}", ("t/0",), 0, "g", np.arange(length) % 7 + 20, sampled, sampled,
                np.zeros(length, np.float32), zeros, np.where(sampled, 0, -1),
            )
        )  # fmt: skip
    return rows


OWN_MODELS = (
    "grpo_kl",
    "ppo",
    "ppo_hl_gauss",
    "distillation",
    "istar",
    "pav",
    "infopo",
    "spa_rl",
    "thr",
)
"""Recipes that between them ask every kind of model: reference, critics, teacher, signals'."""


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=[pytest.mark.slow] * (n not in OWN_MODELS)) for n in shipped()]
)
def test_recipes(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made = trainer(read(name))
    models = [made.lm.model, made.lm._frozen, made.teacher and made.teacher.model]
    models += [made.critic.body, made.critic.head] if made.critic is not None else []
    models += [getattr(getattr(a, "generator", None), "model", None) for a in made.roles.values()]
    with pretending(monkeypatch), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for model in filter(None, models):
            put(model)
        for _ in range(2):
            made.advance()
