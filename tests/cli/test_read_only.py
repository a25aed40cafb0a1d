"""What is only read stays only read: every file of others, with every dangerous thing in every
field that it has. Nothing may run, connect or be written."""

from __future__ import annotations

import ast
import json
import os
import pickle
import re
import shutil
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from searchgym.cards import catalog
from searchgym.cli.train import environments_of, plan_of
from searchgym.core import read_jsonl
from searchgym.engines import ABOUT, ENGINES, OPEN, BM25Engine, build_engine
from searchgym.envs import SearchEnv
from searchgym.errors import CardError, DataError, EngineError, SearchGymError
from searchgym.evaluation import trajectories_of
from searchgym.llms import build_generator, load
from searchgym.policies import EVALUATION, Lora, TrainableLM, load_policy, save_note
from searchgym.rl import Plan, build
from searchgym.storage import files
from searchgym.utils import trust
from searchgym.utils.trust import registered_only
from searchgym.viewer import TrainingRun
from searchgym_agents.law.law import Law
from searchgym_agents.leaderboard.entries import measured, recorded
from searchgym_agents.leaderboard.submission import check_result

from ..llms.tiny import save
from ..small import CORPUS
from .conftest import SMALL, Cli

pytestmark = pytest.mark.contract

PACKAGE = Path(files.__file__).parents[1]
WORLD: dict[str, Any] = {"world": {"entities": 60}, "tasks": {"simple": 2}, "max_turns": 2}
Reader = Callable[[Path], Any]


class Trap:
    """A working directory of somebody else's: importing its module, reading its pickle, asking its
    server or writing where it says leaves a trace."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.asked = folder, 0
        self.proof = folder / "PWNED"
        touch = f"open({str(self.proof)!r}, 'w').close()\n"
        (folder / "evil_module.py").write_text(touch + "class Evil:\n    pass\n")
        save(folder / "evil_model")
        config = json.loads((folder / "evil_model" / "config.json").read_text())
        auto = {"AutoConfig": "evil.C", "AutoModelForCausalLM": "evil.M", "AutoTokenizer": "evil.T"}
        config |= {"auto_map": auto, "model_type": "unheard-of"}
        (folder / "evil_model" / "config.json").write_text(json.dumps(config))
        (folder / "evil_model" / "evil.py").write_text(touch)
        (folder / "evil.pkl").write_bytes(pickle.dumps(_Touch(str(self.proof))))
        self.server = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.server.getsockname()[1]}/x"
        threading.Thread(target=self._listen, daemon=True).start()
        self.before = self.listing()

    def _listen(self) -> None:
        while True:
            try:
                asked, _ = self.server.accept()
            except OSError:
                return
            self.asked += 1
            asked.close()

    def listing(self) -> set[str]:
        return {str(p.relative_to(self.folder)) for p in self.folder.rglob("*")
                if "__pycache__" not in p.parts and p.parts[-2:-1] != ("read",)
                and "read" not in p.relative_to(self.folder).parts}  # fmt: skip

    def check(self) -> None:
        assert not self.proof.exists(), "code ran"
        assert self.asked == 0, "something connected"
        assert not (self.folder / "made").exists(), "something was written"

    def dangers(self) -> dict[str, Any]:
        model, new = str(self.folder / "evil_model"), str(self.folder / "made" / "x.sqlite")
        run = {"name": "transformers", "model": model, "trust_remote_code": True}
        asking = {"name": "openai", "base_url": self.url, "model": "m"}
        return {
            "module": "evil_module:Evil",
            "dotted module": "evil_module.Evil",
            "process": {"use": "subprocess:Popen", "args": ["touch", str(self.proof)]},
            "code": {"name": "simulated", "generator": run},
            "address": {"name": "remote", "url": self.url},
            "generator": {"name": "simulated", "generator": asking},
            "recording": {"name": "recorded", "engine": "bm25", "path": new},
            "within": {"name": "degraded", "engine": {"name": "remote", "url": self.url}},
            "url": self.url,
            "model": model,
            "path": new,
            "pickle": str(self.folder / "evil.pkl"),
            "loader": {"trust_remote_code": True, "url": self.url, "path": new, "load": run},
            "template": "{{ cycler.__init__.__globals__.os.abort() }}",
            "yes": True,
        }  # fmt: skip


class _Touch:
    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return os.open, (self.path, os.O_CREAT)


EXTRA = ("trust_remote_code", "url", "base_url", "path", "use", "load", "engine", "model",
         "auto_map", "chat_template", "megatron_config")  # fmt: skip
"""Keys that are added to tables which lack them."""


def fields(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Every field of a JSON value, and a foreign one in each table; of a list the first entry
    stands for all."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield (*path, name)
            yield from fields(inner, (*path, name))
        yield (*path, EXTRA[len(path) % len(EXTRA)])
    elif isinstance(value, list) and value:
        yield (*path, 0)
        yield from fields(value[0], (*path, 0))


def put(value: Any, path: tuple[Any, ...], danger: Any) -> Any:
    copied = json.loads(json.dumps(value))
    inner = copied
    for name in path[:-1]:
        inner = inner[name]
    inner[path[-1]] = danger
    return copied


@pytest.fixture
def trap(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Trap]:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    trust._NAMED.clear()
    (tmp_path / "read").mkdir()
    made = Trap(tmp_path)
    yield made
    made.server.close()


def walk(trap: Trap, file: Path, read: Reader, *, line: bool = False, every: str = "") -> None:
    """Put a danger into each field, one after the other in turn, and every danger into the fields
    of the table ``every``."""
    lines = file.read_text(encoding="utf-8").splitlines()
    value = json.loads(lines[0] if line else "\n".join(lines))
    dangers = trap.dangers()
    names = list(dangers)
    for number, path in enumerate(fields(value)):
        turn = [names[number % len(names)]]
        for name in names if every and every in path[-2:-1] else turn:
            text = json.dumps(put(value, path, dangers[name]))
            file.write_text("\n".join([text, *lines[1:]] if line else [text]) + "\n")
            try:
                read(file)
            except SearchGymError:
                pass
            except (TypeError, ValueError, LookupError, AttributeError) as error:  # a wrong type
                print("OTHER", file.name, path, name, type(error).__name__, str(error)[:80])
            trap.check()
    file.write_text("\n".join(lines) + "\n")
    assert trap.listing() == trap.before, "something was written"


# --- the readers ----------------------------------------------------------------------------------
@pytest.fixture
def result(cli: Cli, trap: Trap) -> Path:
    out = trap.folder / "read"
    small = [part for name in WORLD for part in ("-s", f"{name}={json.dumps(WORLD[name])}")]
    done = cli("eval", "SearchQA-v0", "-a", "rules", "--closed-book", "none", *small, "--out", out)
    assert done.code == 0, done.err
    return out / "rules.json"


def test_a_result(trap: Trap, result: Path) -> None:
    def read(file: Path) -> None:
        check_result(file)
        measured(file)

    assert not check_result(result).wrong
    walk(trap, result, read, every="environment")


def test_trajectories_and_snapshots(trap: Trap, result: Path) -> None:
    def read(file: Path) -> None:
        with registered_only(file):
            for played in read_jsonl(file):
                played.replay()
                played.replay(scored=False)

    read(file := trajectories_of(result))
    walk(trap, file, read, line=True, every="rules")


def test_a_run(trap: Trap, tmp_path: Path) -> None:
    home = save(tmp_path / "read" / "start")
    plan = Plan.of("grpo", str(home), {"env": WORLD, "train": {"steps": 1, "tasks": 1}})
    plan.save(out := tmp_path / "read" / "run")

    def read(file: Path) -> None:
        plan = plan_of(None, out=file.parent, resume=True)
        with registered_only(file, sources=plan.sources):
            build(plan, environments_of(plan), file.parent)

    read(out / "run.json")
    walk(trap, out / "run.json", read)
    walk(trap, out / "run.json", read, every="env_options")
    walk(trap, out / "run.json", read, every="load")
    replace(plan, env={"weight": 1, **WORLD}).save(out)
    walk(trap, out / "run.json", read, every="env")


@pytest.mark.parametrize(
    "name", ["searchgym.json", "config.json", "tokenizer_config.json", "generation_config.json"]
)
def test_a_models_folder(trap: Trap, name: str) -> None:
    file = save(trap.folder / "read" / "model") / name
    if name == "searchgym.json":
        save_note(file.parent, {"use": "chat", "system": False}, EVALUATION, ["*norm*"])
    if not file.is_file():
        file.write_text("{}")

    def read(file: Path) -> None:
        load_policy(file.parent, device="cpu")
        TrainableLM(file.parent, device="cpu").policy()

    read(file)
    walk(trap, file, read, every="renderer")


def test_an_adapters_folder(trap: Trap) -> None:
    home = save(trap.folder / "read" / "base")
    TrainableLM(home, lora=Lora(rank=2), device="cpu").save(
        out := trap.folder / "read" / "adapter", adapter=True
    )
    file = out / "adapter_config.json"

    def read(file: Path) -> None:
        load(str(file.parent), "cpu")

    read(file)
    walk(trap, file, read)
    settings = json.loads(file.read_text())
    core = {"megatron_config": {"a": 1}, "megatron_core": "evil_module"}
    file.write_text(json.dumps(settings | core))
    with pytest.raises(EngineError, match="sets 'megatron_c"):
        read(file)
    file.write_text(json.dumps(settings | {"base_model_name_or_path": "evil/model"}))
    with pytest.raises(EngineError, match="evil/model"):
        read(file)
    shutil.copy(home / "config.json", out)
    with pytest.raises(EngineError, match="which of them is meant"):
        read(file)
    trap.check()


@pytest.mark.parametrize(("engine", "name"), [("bm25", "index.json"), ("bm25_disk", ABOUT)])
def test_an_index(trap: Trap, engine: str, name: str) -> None:
    folder = trap.folder / "read" / "index"
    if engine == "bm25":
        BM25Engine(CORPUS).save(folder)
    else:
        build_engine({"name": engine, "index": str(folder)}, CORPUS)

    def read(file: Path) -> None:
        build_engine({"name": engine, "index": str(file.parent)}, CORPUS)

    read(folder / name)
    walk(trap, folder / name, read)


def test_stored_tables(trap: Trap) -> None:
    """What pages and the laboratory read: runs of a ladder, a law, what a model was taught."""
    home = trap.folder / "read"
    stored = json.loads((catalog("agents") / "candidate" / "expected.json").read_text())
    name, run = next(iter(stored["runs"].items()))
    for key, value in run.items():
        if isinstance(value, list):
            run[key] = value[:1]
    (home / "expected.json").write_text(json.dumps({**stored, "runs": {name: run}}))
    walk(trap, home / "expected.json", recorded)
    shutil.copy(catalog("agents") / "law" / "law.json", home)
    walk(trap, home / "law.json", Law.load)


# --- the rule -------------------------------------------------------------------------------------
def test_every_option_of_an_open_engine_is_one_and_none_opens_anything() -> None:
    closed = {"index", "threads", "pattern", "kept", "reranker", "rerank_depth"}
    for name, options in OPEN.items():
        for option in options:
            assert not {"path", "url", "file", "model", "cache"} & set(option.split("_")), option
        assert not closed & options, name
    with registered_only("a file"):
        for name in set(ENGINES) - set(OPEN):
            with pytest.raises((CardError, EngineError), match="a file names the engine"):
                build_engine({"name": name}, CORPUS)
        for option in closed:
            with pytest.raises((CardError, EngineError), match="names the option"):
                build_engine({"name": "bm25", option: 1}, CORPUS)
        with pytest.raises((CardError, EngineError), match="names the engine 'remote'"):
            build_engine({"name": "hybrid", "engines": ["bm25", {"name": "remote"}]}, CORPUS)
        with pytest.raises(CardError, match="names the generator"):
            build_generator({"name": "openai", "base_url": "http://127.0.0.1:9"})
        env = SearchEnv(**WORLD, engine={"name": "degraded", "engine": "bm25", "noise": 0.5})
        assert env.tasks
        for options in (
            {"corpus": "/"}, {"corpus": "kg:/x"}, {"corpus": "./mine"}, {"tasks": "q.jsonl"},
            {"data_dir": "/"}, {"world": {"schema": "/x.toml"}},
        ):  # fmt: skip
            with pytest.raises(CardError, match="a file names the"):
                SearchEnv(**{**WORLD, **options})


def test_no_model_is_loaded_otherwise_than_from_safetensors_and_without_its_code() -> None:
    """Every call that loads a model or a tokenizer of transformers says so."""
    seen = 0
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.Call):
                continue
            made = ast.unparse(node.func)
            auto = made.startswith("Auto") and made.endswith(".from_pretrained")
            if auto or made in ("SentenceTransformer", "CrossEncoder", "vllm.LLM"):
                seen += 1
                said = ast.unparse(node)
                assert "trust_remote_code" in said or re.search(r"\*\*(known|named|settings)", said)
                if "Model" in made and "gguf_file" not in said:
                    assert "use_safetensors=True" in said, f"{path}: {said}"
    assert seen >= 6


def test_weights_that_are_a_pickle_and_code_beside_a_model_are_one_line(trap: Trap) -> None:
    import torch
    from safetensors.torch import load_file

    folder = save(trap.folder / "read" / "pickled")
    weights = folder / "model.safetensors"
    torch.save(load_file(weights), folder / "pytorch_model.bin")
    weights.unlink()
    for model in (folder, trap.folder / "evil_model"):
        with pytest.raises(EngineError, match=r"safetensors|custom code"):
            load_policy(model, device="cpu")
    trap.check()


@pytest.mark.parametrize(
    "template",
    [
        "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}x",
        "{% generation %}{% for a in range(9999) %}{{ range(99999)|list|length }}{% endfor %}"
        "{% endgeneration %}",
        "{{ 'a' * 10 ** 11 }}",
    ],
    ids=["loops", "in a tag of transformers", "memory"],
)
def test_a_template_that_does_not_end_is_one_line(trap: Trap, template: str) -> None:
    folder = save(trap.folder / "read" / "model")
    for file in folder.glob("*.jinja"):
        file.write_text(template)
    config = json.loads((folder / "tokenizer_config.json").read_text())
    (folder / "tokenizer_config.json").write_text(json.dumps(config | {"chat_template": template}))
    with pytest.raises(EngineError, match="does not come to an end"):
        load_policy(folder, device="cpu")


BROKEN = {
    "deep": "[" * 100_000,
    "deep table": '{"a":' * 5_000 + "1" + "}" * 5_000,
    "rather deep": "[" * 70 + "]" * 70,
    "a key twice": '{"a": 1, "a": 2}',
    "no number": '{"a": NaN}',
    "beyond numbers": '{"a": -1e400}',
    "no UTF-8": b'{"a": "\xff"}',
    "digits": '{"a": ' + "9" * 10_000 + "}",
    "cut": '{"a": 1',
}


@pytest.mark.parametrize("kind", BROKEN)
def test_broken_json_is_one_line_of_every_command(
    cli: Cli, trap: Trap, result: Path, kind: str
) -> None:
    text = BROKEN[kind]
    data = text if isinstance(text, bytes) else text.encode()
    good, home = trap.folder / "read" / "good.json", trap.folder / "read"
    shutil.copy(result, good)
    played = trajectories_of(result)
    kept = played.read_bytes()
    played.write_bytes(kept + data + b"\n")
    run, model = home / "run", save(home / "model")
    run.mkdir()
    for file in (run / "run.json", model / "searchgym.json", home / "bad.json"):
        file.write_bytes(data)
    (run / "rl.jsonl").write_bytes(data + b"\n")
    for command in (
        ("verify", result),
        ("export", played, "--to", "trec", "--out", home / "x.trec"),
        ("compare", home / "bad.json", good),
        ("leaderboard", home / "bad.json"),
        ("train", "--resume", "--out", run),
        ("eval", "SearchQA-v0", "-a", model, "-n", 1, *SMALL),
    ):
        done = cli(*command)
        assert done.code == 2, (command, done.err)
        assert done.err.count("searchgym: ") == 1, done.err
        assert "Traceback" not in done.err
    (home / "deep.toml").write_text("a = " + "[" * 100_000)
    done = cli("train", home / "deep.toml", "--model", model)
    assert (done.code, "not valid TOML" in done.err) == (2, True), done.err
    with pytest.raises(DataError, match=r"run\.json cannot be read"):  # as the page says
        TrainingRun(run).progress()


@pytest.mark.parametrize(
    ("plan", "row"),
    [
        ({}, {"warnings": [["a"]]}), ({}, {"warnings": 7}), ({}, {"episodes": "x"}),
        ({}, {"step": 10**400}), ({"train": "x"}, {}), ({"train": {"steps": "many"}}, {}),
    ],
)  # fmt: skip
def test_a_log_that_no_training_wrote_is_said_on_its_page(
    tmp_path: Path, plan: Any, row: Any
) -> None:
    usual = {"step": 0, "rollout_s": 1.0, "update_s": 1.0, "episodes": 3}
    (tmp_path / "run.json").write_text(json.dumps(plan))
    (tmp_path / "rl.jsonl").write_text(json.dumps(usual | row) + "\n")
    with pytest.raises(DataError, match="holds values that no training writes"):
        TrainingRun(tmp_path).progress()


def test_json_of_others_is_a_file_of_a_size(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(files, "LARGEST_JSON", 100)
    (tmp_path / "a.json").write_text("[" + "1," * 100 + "1]")
    os.mkfifo(tmp_path / "pipe")
    for name, said in (("a.json", "at most 100"), ("pipe", "it is no file"), (".", "no file")):
        with pytest.raises(DataError, match=said):
            files.read_json(tmp_path / name)
    with pytest.raises(DataError, match="at most 100"):
        files.parse_json("1" * 101, "it")
    assert files.parse_json(b"\xef\xbb\xbf[1]", "it") == [1]
    assert files.parse_json("[Infinity]", "it", nan=True) == [float("inf")]
