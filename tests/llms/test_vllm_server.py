"""vLLM's OpenAI server, run from its own environment, through our client (``make vllm``)."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from searchgym.llms.base import GenRequest, Message, Sampling
from searchgym.llms.openai_generator import OpenAIGenerator
from searchgym.llms.transformers_generator import TransformersGenerator
from searchgym.types import Failure
from tests.llms import tiny
from tests.llms.checks import done, largest_gap
from tests.llms.served import child
from tests.llms.server import free_port

pytestmark = [pytest.mark.vllm, pytest.mark.timeout(590)]
ROOT = Path(__file__).resolve().parents[2]
PYTHON = os.environ.get("SEARCHGYM_VLLM_PYTHON", str(ROOT / ".venv-vllm" / "bin" / "python"))
PROMPTS = ("The capital of Paris", "a", "née Łódź 東京", "The mayor of Tarsis is Ana Bell.")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny.save(tmp_path_factory.mktemp("m") / "qwen2")


@pytest.fixture(scope="module")
def client(folder: Path) -> Iterator[OpenAIGenerator]:
    assert Path(PYTHON).is_file(), f"no vLLM environment at {PYTHON}: make vllm makes it"
    port = free_port()
    command = [
        *(PYTHON, "-m", "vllm.entrypoints.openai.api_server", "--model", str(folder)),
        *("--served-model-name", "tiny", "--host", "127.0.0.1", "--port", str(port)),
        *("--dtype", "float32", "--enforce-eager", "--max-model-len", "512"),
    ]
    with child(command, port, folder.parent / "log", VLLM_CPU_KVCACHE_SPACE="1") as took:
        print(f"\nvLLM's server answered after {took:.1f} s")
        made = OpenAIGenerator(f"http://127.0.0.1:{port}/v1")
        yield made
        made.close()


@pytest.fixture(scope="module")
def plain(folder: Path) -> TransformersGenerator:
    return TransformersGenerator(folder, device="cpu")


def test_it_can_do_everything_but_entropy(client: OpenAIGenerator) -> None:
    assert client.model == "tiny"
    assert client.capabilities == {"ids", "logp", "score", "seed", "chat"}
    for facts in client.facts.values():
        assert facts is not None
        assert facts.samples
        assert facts.top_p
        assert facts.top_k
        assert facts.stop == "keep_flag"


def test_greedy_texts(client: OpenAIGenerator, plain: TransformersGenerator) -> None:
    chat = (Message("user", "Who?"),)
    for prompt in (*map(plain.codec.encode, map(GenRequest, PROMPTS)), chat):
        request = GenRequest(prompt, Sampling(20, 0.0))
        (a,), (b,) = done(client.run([request])), done(plain.run([request]))
        assert (a.ids, a.finish) == (b.ids, b.finish)
        assert a.text == b.text[: len(a.text)]
        assert not b.text[len(a.text) :].strip("�"), "it keeps back half a character at the end"
        np.testing.assert_allclose(a.logp, b.logp, atol=1e-4)


def test_log_probabilities_agree(client: OpenAIGenerator, plain: TransformersGenerator) -> None:
    batch = [
        GenRequest(plain.codec.encode(GenRequest(p)), Sampling(20, heat, top_k=k), key=i)
        for i, (p, heat, k) in enumerate(
            zip(PROMPTS, (1.0, 0.6, 1.5, 1.0), (0, 0, 9, 2), strict=True)
        )
    ]
    assert largest_gap(client, plain, batch) < 1e-4
    assert largest_gap(plain, client, batch) < 1e-4


def test_stop_strings_and_seeds(client: OpenAIGenerator) -> None:
    free = done(client.run([GenRequest(PROMPTS[0], Sampling(40), key=i) for i in range(6)]))
    again = done(client.run([GenRequest(PROMPTS[0], Sampling(40), key=i) for i in range(6)]))
    assert [c.text for c in free] == [c.text for c in again]
    assert len({c.text for c in free}) > 1
    hits = 0
    for key, whole in enumerate(free):
        clean = [i for i in range(8, len(whole.text) - 2) if "�" not in whole.text[i : i + 2]]
        if not clean:
            continue
        hits += 1
        stop = whole.text[clean[0] : clean[0] + 2]
        (got,) = done(client.run([GenRequest(PROMPTS[0], Sampling(40, stop=(stop,)), key)]))
        assert (got.text, got.finish) == (whole.text[: whole.text.index(stop) + 2], "stop")
        assert got.ids == (whole.ids or ())[: len(got.ids or ())]
        assert len(got.logp) == len(got.ids or ())  # type: ignore[arg-type]
    assert hits > 2


def test_too_long_is_refused(client: OpenAIGenerator) -> None:
    (answer,) = client.run([GenRequest((5,) * 510, Sampling(20))])
    assert isinstance(answer, Failure)
    assert (answer.kind, answer.retryable) == ("rejected", False)
    assert "stopped after 2 of 20 tokens" in answer.message, "it shortens requests silently"
    (answer,) = client.run([GenRequest((5,) * 600, Sampling(20))])
    assert isinstance(answer, Failure)
    assert (answer.kind, answer.retryable) == ("rejected", False)
