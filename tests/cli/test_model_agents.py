"""Language models from the command line: started and refused, adapters, how agents are asked."""

from __future__ import annotations

import json
import signal
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from searchgym.policies import Lora, TrainableLM, read_note
from searchgym.rl import Plan, read_log
from tests.llms.server import free_port

from .conftest import SMALL, Cli
from .files import options, own
from .forked import Server

pytestmark = [pytest.mark.contract, pytest.mark.timeout(180)]


def test_a_failed_start_does_not_keep_the_folder(
    cli: Cli,
    world: Path,
    tmp_path: Path,
) -> None:
    out = tmp_path / "run"
    failed = cli("train", "grpo", *options(world, "--out", out, "-s", "sampling.max_tokens=0"))
    assert (failed.code, out.exists()) == (2, False)
    assert "max_tokens ≥ 1" in failed.err
    begun = Plan.of("grpo", str(world / "warm"), {}, env="SearchQA-v0", dtype="float64")
    begun.save(out)  # as a start leaves it that fails in its first step
    done = cli("train", "grpo", *options(world, "--out", out, "--steps", 1))
    assert done.code == 0, done.err
    other = cli("train", "grpo", *options(world, "--out", out, "--steps", 1, "-s", "dtype=float64"))
    assert "other settings (dtype)" in other.err, "now it is a run's"


@pytest.mark.parametrize(
    ("change", "says"),
    [("rollout.size=1", "rollout.size must be at least 2"),
     ("sampling.temperature=0", "sampling.temperature must be above 0")],
)  # fmt: skip
def test_what_can_teach_nothing_is_refused_before_loading(
    cli: Cli,
    world: Path,
    tmp_path: Path,
    change: str,
    says: str,
) -> None:
    out = tmp_path / "run"
    done = cli("train", "grpo", *options(world, "--out", out, "-s", change))
    assert (done.code, out.exists()) == (2, False)
    assert says in done.err


def test_two_trainings_on_one_folder(cli: Cli, forks: Server, world: Path, tmp_path: Path) -> None:
    """The second is refused while the first lives; after kill -9 it goes on."""
    out = tmp_path / "run"
    asked = ["train", "grpo", *options(world, "--out", out, "--steps", 400, "-s",
                                       "train.save_every=1")]  # fmt: skip
    first = forks.start(*asked, cwd=tmp_path)
    end = time.monotonic() + 120
    while not (out / "trainer.safetensors").exists() and time.monotonic() < end:
        time.sleep(0.02)
    second = cli(*asked)
    assert second.code == 2
    assert f"{out} is being written by another training (process {first.pid})" in second.err
    first.send_signal(signal.SIGKILL)
    assert first.wait() == -signal.SIGKILL
    done = len(read_log(out))
    more = cli("train", "--resume", "--out", out, "--steps", done + 1, "--trust")
    assert more.code == 0, more.err
    assert [row["step"] for row in read_log(out)] == list(range(done + 1))


def test_seconds_count_from_the_first_step(
    cli: Cli,
    world: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from searchgym.rl import launch

    build = launch.build

    def slowly(*arguments: Any) -> Any:
        time.sleep(2.5)
        return build(*arguments)

    monkeypatch.setattr(launch, "build", slowly)
    out = tmp_path / "run"
    asked = options(world, "--out", out, "--steps", 500, "--seconds", 2, "--json")
    done = cli("train", "grpo", *asked)
    assert done.code == 0, done.err
    assert done.json["steps"] >= 2


def test_a_training_that_learns_nothing_says_so(
    cli: Cli,
    world: Path,
    tmp_path: Path,
) -> None:
    out = tmp_path / "run"
    done = cli("train", "grpo", *options(world, "--out", out, "--steps", 4, "-s", "reward=[]"))
    assert done.code == 0, done.err
    rows = read_log(out)
    assert all(row["frac_reward_zero_std"] == 1 for row in rows)
    assert [row.get("warnings") for row in rows] == [None, None, ["no_signal"], None]
    assert "warning: no_signal: no group had two different rewards" in done.err
    assert cli("report", out).code == 0
    assert "Learnt nothing" in (out / "report.html").read_text()


def test_adapters_from_the_command_line(cli: Cli, world: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    lora = ["-s", "lora.rank=2", "-s", "lora.alpha=6", "-s", "lora.targets=q_proj,v_proj"]
    done = cli("train", "grpo", *options(world, "--out", out, "--steps", 1, *lora))
    assert done.code == 0, done.err
    assert Plan.load_from(out).lora == {"rank": 2, "alpha": 6, "targets": ["q_proj", "v_proj"]}
    nowhere = cli("train", "grpo", *options(
        world, "--out", tmp_path / "no", "-s", "lora.targets=nothing_proj"
    ))  # fmt: skip
    assert nowhere.code == 2
    assert "adapters cannot be added" in nowhere.err


def test_an_adapters_folder_is_a_model_and_an_agent(
    cli: Cli,
    world: Path,
    tmp_path: Path,
) -> None:
    lm = TrainableLM(world / "warm", lora=Lora(rank=2), device="cpu")
    folder = lm.save(tmp_path / "adapter", adapter=True, policy=lm.policy("plain"))
    found = cli(
        "eval", "SearchQA-v0", "-a", folder, *own(world), "-s", "agent.max_tokens=6", "--json"
    )
    assert found.code == 0, found.err
    assert found.json[0]["means"]["tokens_out"]["mean"] > 0
    asked = options(world, "--out", tmp_path / "run", "--steps", 1)
    asked[asked.index(str(world / "warm"))] = str(folder)
    done = cli("train", "grpo", *asked)
    assert done.code == 0, done.err
    assert read_note(tmp_path / "run" / "model")["renderer"] == "plain"


@pytest.mark.parametrize(
    ("agent", "option", "says"),
    [
        ("M", "temperature=abc", "temperature must be a number, got 'abc'"),
        ("M", "max_tokens=0", "max_tokens ≥ 1"),
        ("M", "max_token=3", "Did you mean 'max_tokens'"),
        ("M", "renderer=chats", "Did you mean 'chat'"),
        ("react", "modle=m", "modle"),
        ("random", "sed=3", "Did you mean 'seed'"),
    ],
)
def test_a_wrong_option_is_one_line(
    cli: Cli, world: Path, agent: str, option: str, says: str,
) -> None:  # fmt: skip
    name = world / "warm" if agent == "M" else agent
    address = ["-s", "agent.base_url=http://127.0.0.1:1/v1"] if agent == "react" else []
    done = cli("eval", "SearchQA-v0", "-a", name, *own(world), *address, "-s", f"agent.{option}")
    assert done.code == 2
    assert says in done.err
    assert len([line for line in done.err.splitlines() if line.startswith("searchgym:")]) == 1
    assert "Traceback" not in done.err


RAISES = """
class Broken:
    def act(self, requests):
        return [1 / 0 for _ in requests]

def function(request):
    raise KeyError("missing")

class Silent:
    def act(self, requests):
        return [None for _ in requests]

class Unmade:
    def __init__(self, size):
        self.size = size + 1
    def act(self, requests):
        return ["" for _ in requests]

def hungry(request):
    raise RuntimeError("CUDA error: out of memory")
"""


@pytest.mark.parametrize(
    ("agent", "options_", "says"),
    [
        ("broken_agents:hungry", [], "the device is out of memory. Fewer episodes at a time"),
        ("broken_agents:Broken", [], r"raised ZeroDivisionError: division by zero (%s:4)"),
        ("broken_agents:function", [], r"raised KeyError: 'missing' (%s:7)"),
        ("broken_agents:Silent", [],
         "agent 'broken_agents:Silent': the agent returned NoneType for a request; a text is need"),
        ("broken_agents:Unmade", ["-s", "agent.size=abc"], "cannot be made with size='abc'"),
    ],
)  # fmt: skip
def test_an_agent_that_raises_is_one_line(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, agent: str,
    options_: list[str], says: str,
) -> None:  # fmt: skip
    file = tmp_path / "broken_agents.py"
    file.write_text(RAISES)
    monkeypatch.syspath_prepend(str(tmp_path))
    done = cli("eval", "SearchQA-v0", *SMALL, "-n", 4, "-a", agent, *options_)
    assert done.code == 2, done.err
    assert (says % file if "%s" in says else says) in done.err
    assert "Traceback" not in done.err
    sys.modules.pop("broken_agents", None)


def test_a_server_that_cannot_be_reached_is_named(cli: Cli) -> None:
    address = f"http://127.0.0.1:{free_port()}/v1"
    done = cli("eval", "SearchQA-v0", *SMALL, "-n", 2, "-a", "react", "-s",
               f"agent.base_url={address}", "-s", "agent.model=m", "-s",
               "agent.tries=1")  # fmt: skip
    assert done.code == 2
    assert "react: all 2 episodes were lost" in done.err or "react: 2 of 2 episodes" in done.err
    assert "unavailable" in done.err
    assert address.removeprefix("http://").removesuffix("/v1") in done.err


def test_compare_names_how_models_were_asked(
    cli: Cli,
    world: Path,
    tmp_path: Path,
) -> None:
    asked = ["eval", "SearchQA-v0", "-a", world / "warm", *own(world)]
    for folder, tokens in (("a", 6), ("b", 9)):
        done = cli(*asked, "-s", f"agent.max_tokens={tokens}", "--out", tmp_path / folder)
        assert done.code == 0, done.err
    files = [next(p for p in (tmp_path / f).glob("*.json")
                  if p.name not in ("machine.json",) and "closed" not in p.name)
             for f in ("a", "b")]  # fmt: skip
    said = cli("compare", *files)
    assert said.code == 0, said.err
    assert "were asked differently: sampling.max_tokens (9 and 6)" in said.err
    differing = cli("compare", *files, "--json").json["asked_differently"]
    assert list(differing.values()) == [{"sampling.max_tokens": [9, 6]}]
    assert "asked differently" not in cli("compare", files[0], files[0]).err
    record = json.loads(files[0].read_text())["settings"]["agent"]
    assert record["prompt"]["overflow"] == "invalid"
