"""A policy that plays with vLLM in this process, and is trained. Run by ``make vllm``."""

from __future__ import annotations

import multiprocessing
import os
import time
from pathlib import Path
from typing import Any

import pytest

from searchgym.errors import EngineError
from searchgym.llms import GenRequest, Sampling, VllmGenerator
from searchgym.policies.causal_lm import CausalLMPolicy
from searchgym.policies.trainable import Lora, TrainableLM
from searchgym.rl import TrainConfig, Trainer
from tests.llms.checks import done
from tests.llms.server import free_port
from tests.policies.warm import RECIPE, Recorded, groups, require_exact, success, warm
from tests.rl.colours import SAMPLING, setting

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(500)]

OPTIONS: dict[str, Any] = {"dtype": "float32", "enforce_eager": True, "kv_cache_gb": 1}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return warm(tmp_path_factory.mktemp("m") / "qwen2")


@pytest.fixture(scope="module")
def vllm(folder: Path) -> Any:
    return VllmGenerator(folder, **OPTIONS)


def policy_over(generator: Any, seed: int = 0) -> CausalLMPolicy:
    return CausalLMPolicy(generator, "plain", sampling=SAMPLING, seed=seed)


def test_episodes_are_token_exact(vllm: Any) -> None:
    recorded = Recorded(vllm)
    assert require_exact(policy_over(recorded), recorded) > 100


@pytest.mark.parametrize("lora", [None, Lora(rank=8, alpha=16)])
def test_it_is_trained(vllm: Any, folder: Path, lora: Lora | None) -> None:
    """Each push is verified on what is played next; LoRA's adapters are merged."""
    if lora is not None:
        pytest.importorskip("peft", reason="LoRA needs peft in vLLM's environment")
    lm = TrainableLM(folder, dtype="float32", device="cpu", lora=lora)
    recorded = Recorded(vllm)
    policy = policy_over(recorded)
    policy.weights_changed(lm.merged())
    before, version = success(policy), policy.version
    config = TrainConfig(steps=16, tasks=4, lr=2e-3 if lora is None else 8e-3, agreement=1e-4)
    run = Trainer(setting(), lm, RECIPE, config, policy=policy)
    seen = list(run.train())
    gaps = [m["sampling_logp_difference/max"] for m in seen]
    after = success(policy)
    print(f"\nlora={lora is not None}: {before:.2f} → {after:.2f} right, gaps ≤ {max(gaps):.2g}")
    assert before < 0.5
    assert after > 0.85
    assert policy.version == version + 16
    assert max(gaps) <= 1e-4
    assert require_exact(policy, recorded) > 100, "and of the last weights, too"


def test_stale_weights_are_found_out(vllm: Any, folder: Path) -> None:
    lm = TrainableLM(folder, dtype="float32", device="cpu")
    policy = policy_over(vllm)
    policy.weights_changed(lm.merged())
    config = TrainConfig(steps=3, tasks=4, lr=1e-2)
    run = Trainer(setting(), lm, RECIPE, config, policy=policy)
    run.advance()
    wrong = {n: w * 1.01 for n, w in lm.merged().items()}
    vllm.update_weights(wrong)
    with pytest.raises(EngineError, match=r"VllmGenerator and the trainer disagree on Qwen2For"):
        run.advance()
    vllm.update_weights(lm.merged())


def test_speed(vllm: Any, folder: Path) -> None:
    """Printed, not judged."""
    lm = TrainableLM(folder, dtype="float32", device="cpu")
    prompt = tuple(range(3, 40))
    batch = [GenRequest(prompt, Sampling(64), key=i) for i in range(128)]
    lines = []
    for generator in (vllm, lm.generator()):
        policy = policy_over(generator)
        groups(policy, 2, "first")
        begun = time.monotonic()
        played = groups(policy, 64, "speed")
        took = time.monotonic() - begun
        tokens = sum(m.tokens for g in played for m in g.members)
        begun = time.monotonic()
        written = sum(len(c.ids or ()) for c in done(generator.run(batch)))
        alone = written / (time.monotonic() - begun)
        lines.append(
            f"{type(generator).__name__}: {tokens / took:,.0f} rollout tokens/s, "
            f"{256 / took:,.0f} episodes/s; {alone:,.0f} tokens/s of 128 texts of 64"
        )
    begun = time.monotonic()
    for _ in range(5):
        vllm.update_weights(lm.merged())
    print("\n" + "\n".join(lines), f"\na push: {(time.monotonic() - begun) / 5 * 1000:.0f} ms")


def _together(rank: int, port: int, folder: Path, out: Path, told: Any) -> None:
    os.environ |= {
        "RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2",
        "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port),
    }  # fmt: skip
    from searchgym.rl import Processes

    try:
        with pytest.raises(EngineError, match=r"make .*Processes\(…\) before a VllmGenerator"):
            VllmGenerator(folder, **OPTIONS)
        processes = Processes(cpu=True)
        lm = TrainableLM(folder, dtype="float32", device="cpu")
        policy = policy_over(VllmGenerator(folder, **OPTIONS))
        config = TrainConfig(steps=2, tasks=4, lr=2e-3, agreement=1e-4)
        run = Trainer(setting(), lm, RECIPE, config, policy=policy, processes=processes, out=out)
        told.send([m["reward"] for m in run.train()])
    except Exception as error:  # whatever it is: the test looks at it
        told.send(f"{type(error).__name__}: {error}")


def test_each_of_two_processes_has_one(folder: Path, tmp_path: Path) -> None:
    """They play and train together, each with a vLLM of its own."""
    pytest.importorskip("accelerate", reason="needs accelerate in vLLM's environment")
    context, port = multiprocessing.get_context("spawn"), free_port()
    mine, theirs = context.Pipe()
    both = [
        context.Process(target=_together, args=(rank, port, folder, tmp_path / "run", theirs))
        for rank in range(2)
    ]
    for process in both:
        process.start()
    said = []
    for _ in both:
        assert mine.poll(400)
        said.append(mine.recv())
    for process in both:
        process.join()
    assert isinstance(said[0], list), said
    assert said[0] == said[1]
    assert len((tmp_path / "run" / "rl.jsonl").read_text().splitlines()) == 2


def _refused(folder: str, told: Any) -> None:
    try:
        lm = TrainableLM(folder, dtype="float32", device="cpu")
        # vLLM's state for convolutions wants prompts read in chunks
        policy = policy_over(VllmGenerator(folder, **OPTIONS, enable_chunked_prefill=True))
        run = Trainer(setting(), lm, RECIPE, TrainConfig(steps=2, tasks=4), policy=policy)
        told.send(str([m["sampling_logp_difference/max"] for m in run.train()]))
    except Exception as error:  # whatever it is: the test looks at it
        told.send(f"{type(error).__name__}: {error}")


def test_an_architecture_that_is_off_is_refused_by_name(tmp_path: Path) -> None:
    """LFM2, in a process of its own: a process holds one vLLM."""
    folder = warm(tmp_path / "lfm2", "lfm2")
    context = multiprocessing.get_context("spawn")
    mine, theirs = context.Pipe()
    process = context.Process(target=_refused, args=(str(folder), theirs))
    process.start()
    assert mine.poll(400)
    said = mine.recv()
    process.join()
    print(f"\n{said}")
    assert said.startswith("EngineError: ")
    assert "Lfm2ForCausalLM" in said
