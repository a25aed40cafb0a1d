"""``searchgym train RECIPE``: a language model learns, is saved, resumed, stopped and evaluated by
the command line alone; what is wrong is said in one line with what to type next."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import json
import os
import re
import shlex
import shutil
import signal
import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from searchgym.cards import catalog
from searchgym.cli.live import Screen, chosen, quiet_loading, sparkline
from searchgym.errors import CardError, MissingExtraError
from searchgym.reports import save_curve
from searchgym.rl import Plan, Trackers, changed, identity, read_log
from tests.llms.server import free_port
from tests.rl.colours import TASKS

from .conftest import Cli
from .files import options, own
from .forked import Process, Server

pytestmark = pytest.mark.timeout(120)


def test_a_model_learns_is_resumed_and_evaluated(cli: Cli, world: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    done = cli("train", "grpo", *options(world, "--out", out, "--steps", 32, "--seed", 5, "-s",
                                         "loss.clip_high=.28", "-s", "rollout.size=8",
                                         "--json"))  # fmt: skip
    assert done.code == 0, done.err
    facts = done.json
    assert facts["steps"] == 32
    assert facts["episodes"] == 32 * 4 * 8
    assert facts["lost to infrastructure"] == 0
    assert facts["warnings"] == []
    rows = read_log(out)
    assert [row["step"] for row in rows] == list(range(32))
    assert rows[0]["em"] < 0.45 < 0.8 < rows[-1]["em"], "it has learnt"
    assert (out / "curve.png").read_bytes()[:4] == b"\x89PNG"
    plan = Plan.load_from(out)
    assert plan.table["loss"]["clip_high"] == 0.28
    assert plan.table["rollout"] == {"use": "chains", "size": 8}, (
        "also where the recipe says nothing"
    )
    assert plan.table["loss"]["aggregate"] == "seq-mean-token-mean", "the rest stays the recipe's"
    assert "step 32/32 reward" in done.err, "a line per step where nobody watches"

    again = cli("train", "--resume", "--out", out, "--trust")
    assert again.code == 0
    assert "trained to its last step already, 32; go on with --steps 64" in again.err
    more = cli("train", "--resume", "--out", out, "--steps", 33, "--trust")
    assert "going on after step 32 of 33" in more.err
    assert len(read_log(out)) == 33

    said = done.err.splitlines()[-1].removeprefix("evaluate it: searchgym ")
    found = cli(*shlex.split(said), "--json")
    assert found.code == 0, found.err
    assert len(found.json[0]["means"]) > 3
    assert found.json[0]["questions"] == len(TASKS), "in the environment it was trained in"
    assert found.json[0]["means"]["em"]["mean"] == 1.0
    assert found.json[0]["means"]["searches"]["mean"] == 1.0
    from safetensors.torch import load_file

    new, old = (load_file(f / "model.safetensors") for f in (out / "model", world / "warm"))
    assert new.keys() >= old.keys()
    assert not any(new[name].equal(old[name]) for name in old if name.endswith("proj.weight"))


def test_ctrl_c_saves_and_the_same_numbers_follow(
    cli: Cli, forks: Server, world: Path, tmp_path: Path
) -> None:
    whole, part = tmp_path / "whole", tmp_path / "part"
    settings = options(world, "--steps", 6, "--seed", 3)
    assert cli("train", "grpo", *settings, "--out", whole).code == 0
    threads = str(torch.get_num_threads())  # sums are the same to the bit on as many
    process = forks.start("train", "grpo", *settings, "--out", part, cwd=tmp_path,
                          env={"OMP_NUM_THREADS": threads})  # fmt: skip
    said = ""
    for line in process.stderr:
        said += line
        if line.startswith("step 2/6"):
            process.send_signal(signal.SIGINT)
    assert process.wait() == 130, said
    assert "finishing this step, then saving" in said
    assert f"go on with: searchgym train --resume --out {part} --trust" in said, "it names files"
    saved = len(read_log(part))
    assert 2 <= saved < 6, said
    assert (part / "trainer.safetensors").exists()
    rest = cli("train", "--resume", "--out", part, "--trust")
    assert f"going on after step {saved} of 6" in rest.err

    def numbers(out: Path) -> list[dict[str, Any]]:
        return [{k: v for k, v in row.items() if not k.endswith("_s")} for row in read_log(out)]

    assert numbers(part) == numbers(whole)


def started(forks: Server, arguments: list[str], count: int, cwd: Path) -> list[Process]:
    """``searchgym`` in several processes, as ``torchrun`` starts them."""
    port = str(free_port())
    return [
        forks.start(*arguments, cwd=cwd, env={
            "RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": str(count),
            "LOCAL_WORLD_SIZE": str(count), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port,
        })
        for rank in map(str, range(count))
    ]  # fmt: skip


@pytest.mark.slow  # that two processes train what one does is tests/rl/test_processes.py
@pytest.mark.timeout(400)  # four processes start
def test_several_processes_train_one_model(
    cli: Cli, forks: Server, world: Path, tmp_path: Path
) -> None:
    """The main one speaks and writes; one that is interrupted stops them all, after the same step;
    the numbers are those of a single process."""
    alone, out = tmp_path / "alone", tmp_path / "several"
    settings = options(world, "--steps", 40, "--seed", 3)
    main, other = started(forks, ["train", "grpo", *settings, "--out", str(out)], 2, tmp_path)
    said = ""
    for line in main.stderr:
        said += line
        if line.startswith("step 2/40"):
            other.send_signal(signal.SIGTERM)  # not the one that speaks
    silent = other.communicate()
    assert (main.wait(), silent.returncode) == (130, 130), (said, silent)
    steps = len(read_log(out))
    assert 2 <= steps < 40, said
    assert f"stopped and saved after step {steps} of 40" in said
    assert silent[1:] == ("", "searchgym: interrupted\n"), "another process says how it ended"

    more = ["train", "--resume", "--out", str(out), "--steps", str(steps + 1), "--trust", "--json"]
    done = [process.communicate() for process in started(forks, more, 2, tmp_path)]
    assert done[0].stdout, done[0].stderr
    facts = json.loads(done[0].stdout)
    assert facts["steps"] == steps + 1
    assert done[1] == (0, "", "")
    assert (out / "model" / "config.json").exists()
    single = options(world, "--steps", steps + 1, "--seed", 3, "--out", alone)
    assert cli("train", "grpo", *single).code == 0
    mine, theirs = read_log(out), read_log(alone)
    assert [row["step"] for row in mine] == list(range(steps + 1)), "each step once"
    for a, b in zip(mine, theirs, strict=True):
        for name in ("reward", "loss", "grad_norm", "entropy"):
            assert a[name] == pytest.approx(b[name], abs=2e-4, rel=2e-4), name


def test_several_processes_take_no_gpu_by_number(
    cli: Cli, world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WORLD_SIZE", "2")
    asked = options(world, "--out", tmp_path / "run", "--steps", 1)
    asked[asked.index("device=cpu")] = "device=cuda:1"
    done = cli("train", "grpo", *asked)
    assert done.code == 2
    assert "each of 2 processes takes a GPU of its own: -s device=cuda, got 'cuda:1'" in done.err


@pytest.mark.parametrize(
    ("recipe", "more"),
    [
        ("grpo", ["-s", "lora.rank=2"]),
        ("ppo", []),
        ("distillation", ["-s", "teacher=TEACHER"]),
        ("ai_searchplanner", ["-s", "roles.generator=TEACHER"]),
        ("search_r2_refiner", ["-s", "roles.refiner=shared"]),
    ],
)
def test_other_methods(cli: Cli, world: Path, tmp_path: Path, recipe: str, more: list[Any]) -> None:
    more = [str(m).replace("TEACHER", str(world / "warm")) for m in more]
    out = tmp_path / recipe
    done = cli("train", recipe, *options(world, "--out", out, "--steps", 2, *more), "--json")
    assert done.code == 0, done.err
    names = read_log(out)[-1]
    assert names["grad_norm"] >= 0
    if recipe == "ppo":
        assert any(name.startswith("value") or name.startswith("critic") for name in names)
    found = cli("eval", "SearchQA-v0", "--agent", out / "model", *own(world), "--json")
    assert found.code == 0, "adapters are merged: the folder stands by itself"


def test_several_environments_by_turns(cli: Cli, world: Path, tmp_path: Path) -> None:
    rules = {"dialect": "plain", "k": 1, "max_turns": 2, "may_abstain": False}
    own_text = {"corpus": str(world / "corpus.jsonl"), "tasks": str(world / "questions.jsonl")}
    generated = {"id": "SimpleQA-v0", "world": {"entities": 150}, "tasks": {"simple": 6}}
    entries = json.dumps([{**own_text, **rules}, {**generated, **rules}])
    out, sets = tmp_path / "run", [f"env={entries}", "sampling.max_tokens=6", "train.tasks=2"]
    asked = ["--model", world / "warm", "--out", out, "--steps", 2]
    done = cli("train", "grpo", *asked, *(part for s in sets for part in ("-s", s)))
    assert done.code == 0, done.err
    (told,) = re.findall("searchgym eval .*", done.err + done.out)
    assert cli(*shlex.split(told)[1:], "-n", 2).code == 0, "what is printed can be pasted"
    refused = cli("train", "--resume", "--out", out, "--steps", 3)
    assert refused.code == 2
    assert "names files" in refused.err or "--trust" in refused.err


ROOT = Path(__file__).resolve().parents[2]
FIRST = min(path.stem for path in (catalog("agents") / "methods").glob("*.toml"))


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["train"], f"say what to train by: searchgym train RECIPE, one of {FIRST}"),
        (["train", "grpo"], "add --model with a name"),
        (["train", "gprpo", "--model", "x"], "Did you mean 'grpo'"),
        (["train", "grpo", "--model", "./nothing"], "holds no model (no config.json)"),
        (["train", "grpo", "--model", "nothing/"], "holds no model (no config.json)"),
        (["train", "grpo", "--model", "W", "-s", "los.clip_high=1"], "Did you mean 'loss'"),
        (["train", "grpo", "--model", "W", "-s", "train.lrr=1"], "Did you mean 'lr'"),
        (["train", "grpo", "--model", "W", "-s", "sampling.tempera=1"], "'temperature'"),
        (["train", "grpo", "--model", "W", "-s", "env.max_turn=1"], "Did you mean 'max_turns'"),
        (["train", "grpo", "--model", "W", "-s", "renderer=chats"], "Did you mean 'chat'"),
        (["train", "grpo", "--model", "W", "-s", "rollout.size=2.5"], "is a whole number, got 2.5"),
        (["train", "grpo", "--model", "W", "-s", "rollout.size=1e9"], "'size' of rollout 'chains'"),
        (["train", "grpo", "--model", "W", "-s", "lora.rank=abc"], "LoRA's rank must be a whole"),
        (["train", "grpo", "--model", "W", "-s", "lora.alpha=1.5"], "LoRA's alpha must be a whole"),
        (["train", "grpo", "--model", "W", "-s", "lora.targets=5"], "LoRA's targets are layers'"),
        (["train", "grpo", "--model", "W", "-s", "load.temprature=1"], "mean 'temperature'"),
        (["train", "grpo", "--model", "W", "-s", "load.temperature=x"], "is a number, got 'x'"),
        (["train", "grpo", "--model", "W", "-s", "train.lr=NaN"], "lr must be a finite number"),
        (["train", "smollm", "-s", "sft.lrr=1"], "Did you mean 'lr'"),
        (["train", "qwen05", "-s", "sft.lr=abc"], "'lr' of [train.sft] is a number, got 'abc'"),
        (["train", "smollm", "-s", "sft.lr=NaN"], "'lr' of [train.sft] is a number, got nan"),
        (["train", "smollm", "-s", "budget=abc"], "'budget' of [train] is a whole number"),
        (["train", "smollm", "-s", "rl.steps=abc"], "steps must be a whole number"),
        (["train", "smollm", "-s", "rl=3"], "[train.rl] is a table, got 3"),
        (["train", "smollm", "-s", "demonstrations.seeds=5"], "seeds are [first, last]"),
        (["train", "knower", "-s", "steps=abc"], "'steps' of the table [train] of 'knower'"),
        (["train", "knower", "-s", "steps=3"], "of at least 10, got 3"),
        (["train", "knower", "-s", "seed=3"], "has no seed: it is given by --seed"),
        (["train", "reader", "-s", "steps=60"], "of at least 600, got 60"),
        (["train", "grpo", "--model", "W", "--log", "wandbb"], "Did you mean 'wandb'"),
        (["train", "grpo", "--model", "W", "--seed", 1, "--seed", 2], "one seed per folder"),
        (["train", "distillation", "--model", "W"], "add -s teacher=MODEL"),
        (["train", "grpo", "--model", "W", "-s", "teacher=./W"], "leave -s teacher=… out"),
        (["train", "grpo", "--model", "W", "-s", "critic.use=scalar"], "reads no critic"),
        (["train", "cosearch", "--model", "W"], "plays with a 'ranker', which is not given"),
        (["train", "ai_searchplanner", "--model", "W", "-s", "roles.generator=./no"], "no config"),
        (["train", "grpo", "--model", "W", "-s", "roles.ranker=shared"], "asks for no roles"),
        (["train", "--resume", "-s", "roles.a=b"], "--set cannot be changed"),
        (["train", "--resume", "--out", "none"], "holds no run to resume: start one with"),
        (["train", "--resume", "--model", "x"], "--model cannot be changed"),
        (["train", "candidate", "--model", "x"], "'candidate' is none of their recipes"),
        (["eval", "SearchQA-v0", "--agent", "grpo"], "searchgym train grpo --model MODEL"),
    ],
)
def test_what_is_wrong_is_one_line(
    cli: Cli, world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    arguments: list[Any], says: str,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    done = cli(*[world / "warm" if a == "W" else a for a in arguments])
    assert done.code == 2
    assert says in done.err
    assert done.err.count("\n") <= 1
    assert not list(tmp_path.rglob("run.json")), "nothing was begun"


def test_a_recipe_that_is_refused_does_not_take_the_folder(
    cli: Cli, world: Path, tmp_path: Path
) -> None:
    out = tmp_path / "run"
    asked = ["--out", out, "--steps", 1, "-s", "data.use=dynamic"]
    done = cli("train", "grpo", *options(world, *asked, "-s", "data.metric=nothing"))
    assert done.code == 2
    assert "'nothing'" in done.err
    assert not (out / "run.json").exists()


def test_a_teacher_that_reads_other_tokens_is_refused(
    cli: Cli, world: Path, tmp_path: Path
) -> None:
    from transformers import AutoTokenizer

    teacher = tmp_path / "teacher"
    shutil.copytree(world / "warm", teacher)
    tokenizer = AutoTokenizer.from_pretrained(str(teacher))
    tokenizer.add_tokens(["zzz"])
    tokenizer.save_pretrained(str(teacher))
    asked = ["--out", tmp_path / "run", "--steps", 1, "-s", f"teacher={teacher}"]
    done = cli("train", "distillation", *options(world, *asked))
    assert done.code == 2
    assert "different tokenizers" in done.err


def test_another_run_in_the_folder_is_refused(cli: Cli, world: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    assert cli("train", "grpo", *options(world, "--out", out, "--steps", 1)).code == 0
    done = cli("train", "grpo", *options(world, "--out", out, "--steps", 2, "-s", "dtype=float64"))
    assert done.code == 2
    assert "other settings (dtype)" in done.err
    assert f"searchgym train --resume --out {out}" in done.err


def test_options_of_slots() -> None:
    two = ["ppo", {"use": "kl", "weight": 0.1}]
    assert changed("loss", "ppo", {"clip_high": 1}) == {"use": "ppo", "clip_high": 1}
    assert changed("loss", two, {"kl": {"weight": 2}}) == ["ppo", {"use": "kl", "weight": 2}]
    assert changed("loss", two, {"0": {"clip_low": 2}})[0] == {"use": "ppo", "clip_low": 2}
    assert changed("rollout", "chains", {"size": 2}) == {"use": "chains", "size": 2}
    assert changed("advantage", {"use": "grpo"}, "rloo") == "rloo"
    with pytest.raises(CardError, match=r"several parts, ppo, kl: --set loss\.ppo\.OPTION"):
        changed("loss", two, {"weight": 2})
    with pytest.raises(CardError, match="leaves 'data' out"):
        changed("data", None, {"x": 2})


# --- the screen, the curve, the trackers ------------------------------------------------------
STEP = {
    "step": 0.0, "episodes": 8.0, "infra_errors": 1.0, "reward": 0.5, "em": 0.5, "rewards/em": 0.5,
    "rewards/format": 0.75, "searches": 1.5, "completion_length": 10.0, "invalid": 0.1,
    "frac_reward_zero_std": 0.25, "clip_frac": 0.125, "kl/kl": 0.01, "coef/lr": 1.0,
    "rollout_s": 2.0, "update_s": 1.0,
}  # fmt: skip


def test_the_screen_shows_what_matters(capsys: pytest.CaptureFixture[str]) -> None:
    from rich.console import Console

    screen = Screen("a run", 10)
    with screen:
        screen.step(STEP)
        screen.step({**STEP, "step": 1.0, "reward": float("nan")}, ["no_search: 0.1 searches"])
    err = capsys.readouterr().err
    line = "step 2/10 reward – em 0.5 searches 1.5 invalid 0.1 frac_reward_zero_std 0.25"
    assert f"{line} infra_errors 1" in err
    assert "warning: no_search" in err
    out = Console(width=110, record=True, file=open(os.devnull, "w"))  # noqa: SIM115
    out.print(screen)
    text = out.export_text()
    for shown in ("2/10", "exact match", "searches per episode", "invalid turns",
                  "lost to infrastructure", "without signal", "clip fraction", "KL of the loss kl",
                  "reward part: format", "4.0 episodes/s", "40.0 tokens/s", "3.0 s/step",
                  "no_search"):  # fmt: skip
        assert shown in text, shown
    assert "rewards/em" not in [name for name, _ in chosen(STEP)], "shown once, as exact match"
    assert ("kl", "KL to the reference, nats per token") in chosen({**STEP, "kl": 0.2})


def test_sparklines() -> None:
    assert sparkline([0, 1, 2, 3, 4, 5, 6, 7]) == "▁▂▃▄▅▆▇█"
    assert sparkline([1, 1, float("nan")]) == "▁▁ "
    assert sparkline([0.0] * 100 + [1.0] * 100, width=4) == "▁▁██"
    assert sparkline([float("nan")]) == ""


def test_the_curve(tmp_path: Path) -> None:
    (tmp_path / "rl.jsonl").write_text('{"step": 0, "reward": 0.5}\n{"step": 1, "rew')
    assert read_log(tmp_path) == [{"step": 0, "reward": 0.5}]
    assert save_curve(tmp_path).stat().st_size > 5_000


def test_without_transformers_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("transformers", "transformers.utils"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(MissingExtraError, match=r'pip install .*\[llm\]"'), quiet_loading():
        pass


def test_trackers_are_told_the_same(tmp_path: Path) -> None:
    with pytest.raises(CardError, match="Did you mean 'tensorboard'"):
        Trackers(["tensorbord"], tmp_path, {}, 0)
    if importlib.util.find_spec("tensorboard") is None:
        with pytest.raises(MissingExtraError, match=r'pip install .*\[tensorboard\]"'):
            Trackers(["tensorboard"], tmp_path, {}, 0)
        return
    trackers = Trackers(["tensorboard"], tmp_path, {"a": 1}, 0)
    for step in range(3):
        trackers.write(step, {"reward": step / 2, "em": float("nan")})
    trackers.close()
    module = "tensorboard.backend.event_processing.event_accumulator"
    read: Any = importlib.import_module(module).EventAccumulator(str(tmp_path / "tensorboard"))
    read.Reload()
    assert [(e.step, e.value) for e in read.Scalars("reward")] == [(0, 0.0), (1, 0.5), (2, 1.0)]
    assert "em" not in read.Tags()["scalars"]


def test_a_resumed_run_tells_trackers_its_last_step_again(tmp_path: Path) -> None:
    """It was logged and saved, but a kill may have come before they were told."""
    from searchgym.cli.train import _last_row
    from searchgym.rl import Log

    (tmp_path / "rl.jsonl").write_text(
        '{"step": 0, "em": 0.1}\n'
        "no JSON\n"
        '{"step": 1, "em": 0.2, "f1": null, "warnings": ["w"]}\n'
        '{"step": 2}\n'
    )
    run: Any = SimpleNamespace(log=Log(tmp_path / "rl.jsonl"))
    assert _last_row(run, 2) == {1: {"step": 1, "em": 0.2}}
    assert _last_row(SimpleNamespace(log=Log(tmp_path / "none")), 0) == {}


def test_a_warm_start_names_what_its_corpus_lacks(cli: Cli, tmp_path: Path) -> None:
    asked = ["warmstart", "--out", tmp_path / "warm", "--steps", 600, "--no-word-vectors"]
    done = cli(*asked, "--corpus", "reserch")
    assert done.code != 0
    assert "Did you mean 'research'" in done.err
    done = cli(*asked, "--corpus", "research", "--paraphrases")
    assert done.code != 0
    assert "this world has no paraphrases" in done.err
    assert not (tmp_path / "warm").exists()


def test_a_warm_start_shows_as_many_results_as_its_examples_do() -> None:
    """The default is written where help can show it without loading what trains."""
    from searchgym_agents.reader.command import warmstart
    from searchgym_agents.reader.traces import DEFAULTS, OPENING

    default = inspect.signature(warmstart).parameters["results"].default
    assert default == DEFAULTS["k"] == OPENING["k"]


@pytest.mark.slow  # a tokenizer and examples take most of a minute
def test_a_reader_from_nothing(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command alone; what the stages teach is measured elsewhere."""
    from searchgym_agents.reader import run
    from searchgym_agents.reader.mixture import Stage

    monkeypatch.setattr(run, "stages", lambda steps, few_episodes: (Stage(steps, {"copy": 1.0}),))
    asked = ["warmstart", "--out", tmp_path / "warm", "--steps", 2, "--worlds", 1, "--width", 16,
             "--no-word-vectors", "--corpus", "research"]  # fmt: skip
    done = cli(*asked, "--json")
    assert done.code == 0, done.err
    assert done.json["parameters"] > 20_000
    assert done.json["tokens"] > 0
    assert "searchgym train grpo --model" in done.err
    assert (tmp_path / "warm" / "config.json").exists()
    assert "to its last step already" in cli(*asked).err
    other = cli(*asked, "--results", 2)
    assert other.code != 0
    assert "other settings" in other.err


def test_a_tracker_knows_a_run_by_more_than_its_folders_name(tmp_path: Path) -> None:
    runs = [tmp_path / "a" / "run", tmp_path / "b" / "run"]
    for out in runs:
        out.mkdir(parents=True)
    names = [identity(out) for out in runs]
    assert names[0] != names[1]
    assert all(name.startswith("run-") for name in names)
    assert names == [identity(out) for out in runs]  # a resumed run is the same one


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("-s", "dtype=float99"), "dtype is auto, float32, bfloat16 or another of torch, got"),
        (("-s", "device=cud"), "device is auto, cpu, cuda or cuda:N, got 'cud'"),
        ((), "unknown model 'smollm2-135'. Did you mean 'smollm2-135m'"),
    ],
)
def test_what_cannot_be_loaded_is_said_before_anything_is_fetched(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: Any, said: str
) -> None:
    monkeypatch.setenv("SEARCHGYM_CACHE", str(tmp_path / "cache"))
    name = "smollm2-135m" if arguments else "smollm2-135"
    done = cli("train", "grpo", "--model", name, "--out", tmp_path / "run", *arguments)
    assert done.code == 2
    assert said in done.err
    assert not (tmp_path / "cache" / "models").exists()


def test_a_long_step_says_what_it_is_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no terminal shows it: not once the step is over, nor where nobody is told."""
    from types import SimpleNamespace

    from searchgym.cli import train

    monkeypatch.setattr(train, "REPORT_S", 0.01)
    told: list[str] = []
    heard = threading.Event()

    def tell(note: str) -> None:
        told.append(note)
        heard.set()

    screen: Any = SimpleNamespace(tell=tell)
    run: Any = SimpleNamespace(steps=4, doing="playing, round 1, 0 of 8 groups")
    with train._reports(screen, run, quiet=False):
        assert heard.wait(10)
    assert re.fullmatch(r"step 4, for \d+ s now: playing, round 1, 0 of 8 groups", told[0])
    told.clear()
    heard.clear()
    with train._reports(screen, run, quiet=True):
        assert not heard.wait(0.1)
    assert not told
