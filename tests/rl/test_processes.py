"""Two processes on this machine train what one does: the same losses, weights, checkpoints."""

from __future__ import annotations

import json
import multiprocessing
import pickle
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from searchgym.errors import CardError, EngineError
from searchgym.llms import load
from searchgym.rl import read
from searchgym.rl.log import LOG
from searchgym.rl.processes import Processes, SingleProcess
from searchgym.rl.run_folder import load_checkpoint
from searchgym.rl.trainer import CHECKPOINT, TrainConfig, Trainer
from tests.llms.server import free_port
from tests.rl.colours import blank, player, setting, tokenizer
from tests.rl.launched import main, state, train

pytestmark = pytest.mark.contract

GRPO: dict[str, Any] = {
    "rollout": {"use": "chains", "size": 5},
    "advantage": "grpo",
    "loss": [{"use": "ppo", "aggregate": "seq-mean-token-mean"}, {"use": "kl", "weight": 0.01}],
}
WHITENED: dict[str, Any] = {
    "rollout": {"use": "chains", "size": 3},
    "advantage": "reinforce_pp_baseline",
    "loss": {"use": "ppo", "clip_high": 0.28},
    "data": "dynamic",
    "train": {"minibatches": 2, "epochs": 2},
}
PAIRS: dict[str, Any] = {
    "advantage": "ones",
    "loss": "dpo",
    "rollout": {"use": "chains", "size": 4},
}


@pytest.fixture(scope="module")
def warm(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("warm") / "warm.safetensors"
    model = player()[0].model
    save_file({n: p.detach().clone() for n, p in model.named_parameters()}, str(path))
    return str(path)


def jobs(warm: str, how: str) -> list[dict[str, Any]]:
    """Micro-batches of few trajectories, so that the processes have different numbers of them."""
    small = {"steps": 3, "tasks": 2, "tokens": 150, "save_every": 2}
    made: list[dict[str, Any]] = [
        {"warm": warm, "recipe": GRPO, "config": small},
        {
            "warm": warm,
            "recipe": WHITENED,
            "config": {**small, "steps": 2, "lr": 2e-3},
            "pass_tokens": 60,
        },
    ]
    moving = {**GRPO, "reference": {"every": 1, "share": 0.5}}
    made.append({"warm": warm, "recipe": moving, "config": small})
    if how == "ddp":
        made.append({"warm": warm, "recipe": PAIRS, "config": {**small, "lr": 2e-3}})
        made.append({"warm": warm, "recipe": GRPO, "config": small, "lora": True})
        # rankings are short, so that some parts of an update have none, or nothing else
        ranked = {**read("cosearch"), "rollout": {"use": "ranked", "size": 4, "keep": 2}}
        ranked |= {"train": {"minibatches": 2}}
        made.append({"warm": warm, "recipe": ranked, "config": small, "role": "ranker"})
    else:
        made.append({"warm": warm, "recipe": GRPO, "config": small, "shared": True})
    return made


def launch(how: str, out: Path, work: list[dict[str, Any]], count: int = 2) -> list[list[Any]]:
    """Each job's report by each process."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.rl.launched"])
    out.mkdir(exist_ok=True)
    port = free_port()
    processes = [
        context.Process(target=main, args=(i, count, port, how, str(out), work))
        for i in range(count)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join(200)
        if process.exitcode is None:
            process.kill()
    assert [p.exitcode for p in processes] == [0] * count
    return [
        [json.loads((out / f"{n}.{i}.json").read_text()) for i in range(count)]
        for n in range(len(work))
    ]


def logged(out: Path) -> list[dict[str, float]]:
    lines = (out / LOG).read_text().splitlines()
    return [{k: v for k, v in json.loads(x).items() if not k.endswith("_s")} for x in lines]


@pytest.mark.parametrize("how", ["ddp", "fsdp"])
def test_two_processes_are_one(how: str, warm: str, tmp_path: Path) -> None:
    work = jobs(warm, how)
    reports = launch(how, tmp_path / "two", work)
    for number, (options, report) in enumerate(zip(work, reports, strict=True)):
        if options.get("shared"):
            assert all("weights in shards cannot write text" in r["error"] for r in report)
            continue
        alone = train(None, tmp_path / "one" / str(number), options)
        wrapped = "DistributedDataParallel" if how == "ddp" else "FSDPModule"
        assert all(wrapped in r["wrapped"] for r in report)
        assert report[0]["metrics"]["loss"] == report[1]["metrics"]["loss"]
        got = logged(tmp_path / "two" / str(number))
        want = logged(tmp_path / "one" / str(number))
        assert len(got) == len(want) == options["config"]["steps"]
        for mine, theirs in zip(got, want, strict=True):
            # a generator with a copy of the weights is compared with the model
            gap, age, ratio = (
                "sampling_logp_difference/",
                "staleness/",
                "importance_sampling_ratio/",
            )
            gaps = {k: mine.pop(k) for k in list(mine) if k.startswith((gap, age, ratio))}
            if how == "ddp":
                assert not gaps
            else:
                assert {f"{gap}max", f"{gap}mean", f"{age}max"} <= set(gaps)
                assert gaps.pop(f"{age}0") == 1.0, "it plays with the newest weights"
                same = [f"{ratio}{k}" for k in ("mean", "max", "ess") if f"{ratio}{k}" in gaps]
                assert [gaps.pop(k) for k in same] == pytest.approx([1.0] * len(same), abs=1e-4)
                assert max(gaps.values()) < 1e-4
            assert mine == pytest.approx(theirs, abs=2e-4, rel=2e-4)
        size = sum(p.numel() for p in alone.lm.model.parameters())
        for index, said in enumerate(report):
            weights = load_file(str(tmp_path / "two" / f"{number}.{index}.safetensors"))
            for name, value in state(alone).items():
                torch.testing.assert_close(weights[name], value, atol=2e-5, rtol=1e-4)
            assert said["local"] <= (size if how == "ddp" else 0.51 * size)
            acting = alone.policy.generator.model.parameters()  # type: ignore[attr-defined]
            assert said["acts"] == pytest.approx(
                float(sum(p.detach().double().abs().sum() for p in acting)), rel=1e-4
            )
        # a checkpoint of either is one of the other
        load_checkpoint(alone, tmp_path / "two" / str(number) / CHECKPOINT)


def test_shards_resume(warm: str, tmp_path: Path) -> None:
    """From a checkpoint of one process, in shards; then in one process again."""
    whole = {"warm": warm, "recipe": GRPO, "config": {"steps": 4, "tasks": 2, "save_every": 1}}
    want = train(None, tmp_path / "one", whole)
    first = {**whole, "config": {**whole["config"], "steps": 2}}
    train(None, tmp_path / "two" / "0", first)
    launch("fsdp", tmp_path / "two", [{**whole, "config": {**whole["config"], "steps": 3}}])
    last = train(None, tmp_path / "two" / "0", whole)
    assert [m["step"] for m in logged(tmp_path / "two" / "0")] == [0, 1, 2, 3]
    got = last.lm.state_dict()
    for name, value in want.lm.state_dict().items():
        torch.testing.assert_close(got[name], value, atol=2e-5, rtol=1e-4)


def test_shares() -> None:
    class Third(SingleProcess):
        count, index = 3, 1

    assert Third().shard(range(8)) == [1, 4, 7]
    lm, policy = player()
    config = TrainConfig(tasks=4)
    with pytest.raises(CardError, match="3 processes share the 4 tasks"):
        Trainer(setting(), lm, "grpo", config, policy=policy, processes=Third())
    with pytest.raises(CardError, match="how is 'ddp' or 'fsdp'"):
        Processes("zero")  # type: ignore[arg-type]
    with pytest.raises(CardError, match="timeout_s must be positive, got 0"):
        Processes(timeout_s=0)


class Second(Processes):
    """Of two, whose exchange goes round: the other has what it has."""

    def __init__(self, **parts: Any) -> None:
        self.count, self.index, self.how = 2, 1, "ddp"
        self._accelerator = SimpleNamespace(**parts)
        self.sent = 0

    def _all_gather(self, share: list[Any]) -> list[list[Any]]:
        data = pickle.dumps(share)
        self.sent += len(data)
        return [pickle.loads(data), pickle.loads(data)]


def test_lines_send_what_they_hold_and_no_more() -> None:
    """A line is a view: pickled by itself, it would bring along the tensor it was cut from."""
    mine, second = torch.arange(4000.0).view(80, 50)[:40], Second()
    found = second.all_gather_rows(mine, 80)
    assert torch.equal(found, mine.repeat_interleave(2, 0))
    assert second.sent < 2 * mine.numel() * mine.element_size()


def test_a_reference_goes_where_the_model_goes() -> None:
    lm, policy = player(0, reference=True)
    device = torch.device("meta")
    second = Second(device=device, prepare_model=lambda model: model)
    with pytest.raises(EngineError, match="asks for DistributedDataParallel, but the model became"):
        second.wrap(lm, policy)
    assert {p.device for p in lm._frozen.parameters()} == {device}


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What accelerate is asked for; it finds no other process."""
    import accelerate

    said: dict[str, Any] = {}

    def stand_in(**options: Any) -> SimpleNamespace:
        said.update(options)
        return SimpleNamespace(num_processes=1, process_index=0)

    monkeypatch.setattr(accelerate, "Accelerator", stand_in)
    for name in ("WORLD_SIZE", "ACCELERATE_MIXED_PRECISION"):
        monkeypatch.delenv(name, raising=False)
    return said


def test_processes_that_do_not_know_each_other_are_refused(
    asked: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """They would each be the main one, and write into one folder."""
    Processes()
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(EngineError, match=r"2 processes were launched .* has found 1, itself"):
        Processes()


def test_a_configured_precision_is_not_followed(
    asked: dict[str, Any], monkeypatch: pytest.MonkeyPatch, recwarn: pytest.WarningsRecorder
) -> None:
    Processes(timeout_s=7200)
    assert not recwarn
    assert asked["mixed_precision"] == "no"
    assert 7200.0 in [
        handler.timeout.total_seconds()
        for handler in asked["kwargs_handlers"]
        if hasattr(handler, "timeout")
    ]
    monkeypatch.setenv("ACCELERATE_MIXED_PRECISION", "fp16")
    with pytest.warns(UserWarning, match=r"MIXED_PRECISION=fp16 .*autocast='bfloat16'"):
        Processes()


def test_each_process_loads_onto_a_gpu_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blank().save_pretrained(tmp_path)
    tokenizer().save_pretrained(tmp_path)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 4)
    taken: list[str] = []

    def to(model: Any, device: str) -> Any:
        taken.append(device)
        return model

    monkeypatch.setattr(torch.nn.Module, "to", to)
    for rank, device in (("", "auto"), ("2", "auto"), ("7", "cuda"), ("2", "cuda:1"), ("2", "cpu")):
        monkeypatch.setenv("LOCAL_RANK", rank)
        load(str(tmp_path), device)
    assert taken == ["cuda", "cuda:2", "cuda:3", "cuda:1", "cpu"]
