"""A real engine inside self-search texts: scripted policies for the rules, a small trained language
model for the whole way."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from searchgym.dialects import NOTHING, get_dialect, loss_mask
from searchgym.engines import build_engine
from searchgym.envs import SearchEnv
from searchgym.errors import DialectError, EngineError, EpisodeError
from searchgym.evaluation import evaluate
from searchgym.llms import Completion, GenRequest, Sampling, check, cut, request_key, stop_end
from searchgym.scoring import ssrl_format
from searchgym.types import Failure, Query, Ranking, Span
from searchgym_agents.self_search import (
    Prompt,
    SelfSearchAgent,
    SimToReal,
    entropy_gate,
    query_entropy,
)
from tests.llms import tiny
from tests.small import CORPUS, TASKS

Continue = Callable[[str], str]


class Script:
    """A text generator whose text is a function of the prompt, one token per character; ``logp``
    holds the log-probability of the tokens of a query."""

    needs_task = False
    fingerprint = "script"

    def __init__(
        self,
        write: Continue,
        logp: dict[str, float] | None = None,
        *,
        has: Sequence[str] = ("logp",),
    ) -> None:
        self.write, self.logp = write, logp or {}
        self.capabilities = frozenset({"ids", *has})
        self.asked: list[list[GenRequest]] = []
        self.fail: list[Failure] = []

    def cache_key(self, request: GenRequest) -> bytes:
        return request_key(request)

    def run(self, batch: Sequence[GenRequest]) -> list[Completion | Failure]:
        check(self, batch)
        self.asked.append(list(batch))
        return [self.fail.pop() if self.fail else self._one(r) for r in batch]

    def _one(self, request: GenRequest) -> Completion:
        assert isinstance(request.prompt, str)
        text = self.write(request.prompt)
        end = stop_end(text, request.sampling.stop)
        finish = "eos" if end is None else "stop"
        if end is not None:
            text = text[:end]
        if len(text) > request.sampling.max_tokens:
            text, finish = text[: request.sampling.max_tokens], "length"
        n, ends = cut(range(1, len(text) + 1), len(text))
        logp = np.full(n, -0.5, np.float32)
        for query, value in self.logp.items():
            if (at := text.find(query)) >= 0:
                logp[at : at + len(query)] = value
        return Completion(
            text, tuple(map(ord, text)), logp if "logp" in self.capabilities else None, ends,
            entropy=-logp if "entropy" in self.capabilities else None, finish=finish,
        )  # fmt: skip

    def score(self, batch: Any) -> list[Any]:
        raise NotImplementedError("not needed here")


def planned(queries: Sequence[str], answer: str = "Quell") -> Continue:
    """Writes thought and search for each query, its own information unless the prompt already ends
    in some, then the answer."""

    def write(prompt: str) -> str:
        said = prompt.partition("Question: x?\n")[2]
        done = said.count("</search>")
        out = ""
        if said.endswith("</search>"):
            out += f"<information>own {done}</information>"
        for i in range(done, len(queries)):
            out += f"<think>t{i}</think><search> {queries[i]} </search>"
            out += f"<information>own {i + 1}</information>"
        return out + f"<think>so</think><answer>{answer}</answer> and more"

    return write


class Names:
    """A search engine that finds the passage a query names, and counts."""

    needs_task = False
    fingerprint = "names"

    def __init__(self, fail: Sequence[Failure] = ()) -> None:
        self.batches: list[list[Query]] = []
        self.fail = list(fail)

    def cache_key(self, request: Query) -> None:
        return None

    def run(self, batch: Sequence[Query]) -> list[Ranking | Failure]:
        from searchgym.types import Hit

        self.batches.append(list(batch))
        return [
            self.fail.pop(0)
            if self.fail
            else tuple(Hit(p, 1.0) for p in CORPUS if p.title.lower() in q.text.lower())[: q.k]
            for q in batch
        ]


QUERIES = ("Aldor", "Mira Venn", "Quell")
ASK = Prompt("Question: x?\n", 1, "e1")


def made(queries: Sequence[str] = QUERIES, engine: Any = None, **options: Any):
    generator = Script(
        planned(queries), options.pop("logp", None), has=options.pop("has", ("logp",))
    )
    engine = engine or Names()
    (text,) = SimToReal(generator, engine, **options).run([ASK])
    return text, generator, engine


def sources(text: Any) -> list[bool]:
    return [lookup.real for lookup in text.lookups]


def test_all_turns() -> None:
    text, generator, engine = made(real="all")
    assert sources(text) == [True] * 3
    assert "own 1<" not in text.text
    assert "founded by Mira Venn" in text.text
    assert "4,120" in text.text
    assert text.text.endswith("<answer>Quell</answer>")
    assert [q.text for batch in engine.batches for q in batch] == list(QUERIES)
    assert [h.passage.id for lookup in text.lookups for h in lookup.hits] == ["p1", "p2", "p3"]
    assert len(generator.asked) == 4
    assert ssrl_format(text.text) == 1.0
    keys = {r.key for batch in generator.asked for r in batch}
    assert len(keys) == 4, "every part is drawn afresh"


@pytest.mark.parametrize("k", [0, 1, 2, 3, 9])
def test_the_first_k_turns(k: int) -> None:
    text, generator, engine = made(real=k)
    assert sources(text) == [i < k for i in range(3)]
    assert len(engine.batches) == min(k, 3)
    assert len(generator.asked) == min(k, 3) + 1, "what follows is one uninterrupted generation"
    for i in range(3):
        assert (f"own {i + 1}<" in text.text) == (i >= k)
    assert text.text.count("<information>") == 3


def test_the_engines_part_and_the_policys_part_are_told_apart() -> None:
    text, _, _ = made(real=2)
    assert [text.text[a:b].strip()[:13] for _, a, b in text.real] == ["<information>"] * 2
    rest = text.text
    for _, start, end in reversed(text.real):
        rest = rest[:start] + rest[end:]
    assert rest == "".join(piece.text for _, piece in text.pieces)
    for at, piece in text.pieces:
        assert text.text[at : at + len(piece.text)] == piece.text
    spans = get_dialect("search_r1_self").parse(text.text).spans
    mask = loss_mask(text.text, spans, range(1, len(text.text) + 1))
    assert "Doc" not in "".join(c for c, m in zip(text.text, mask, strict=True) if m)


def nats(bits: float) -> float:
    """The log-probability p with −p·log2 p = bits, on the branch p > 1/e."""
    low, high = math.exp(-1), 1.0
    for _ in range(100):
        mid = (low + high) / 2
        low, high = (mid, high) if -mid * math.log2(mid) > bits else (low, mid)
    return math.log(low)


def test_the_worked_example_of_the_gate() -> None:
    seen: list[float] = []
    real = []
    for value in (1.0, 1.2, 0.8):
        seen.append(value)
        real.append(entropy_gate(seen))
    assert real == [True, True, False]
    assert not entropy_gate([1.0, 1.0]), "equal is not higher"
    assert entropy_gate([9.0, 1.0, 0.1, 0.2, 0.1, 0.05, 0.06]), "only the one before counts"


def test_guided_by_entropy() -> None:
    """The worked example, halved: −p·log2 p cannot exceed 0.53 bits."""
    bits = {"Aldor": 0.40, "Mira Venn": 0.48, "Quell": 0.32}
    text, generator, engine = made(
        real="entropy", logp={q: nats(b) for q, b in bits.items()}
    )  # fmt: skip
    assert sources(text) == [True, True, False]
    assert [x.entropy for x in text.lookups] == pytest.approx(list(bits.values()), abs=1e-5)
    assert "own 3<" in text.text
    assert "own 1<" not in text.text
    assert [r.needs for r in generator.asked[0]] == [frozenset({"logp"})]
    assert len(engine.batches) == 2
    # a search after a kept block is compared with the kept one
    logp = {"Aldor": nats(0.4), "Mira Venn": nats(0.1), "Quell": nats(0.2)}
    assert sources(made(real="entropy", logp=logp)[0]) == [True, False, True]
    text, _, _ = made(
        real="entropy", logp={"Aldor": -1.0, "Mira": -0.2, "Quell": -3.0}, measure="full",
        has=("entropy",),
    )  # fmt: skip
    assert sources(text) == [True, False, True]
    assert text.lookups[2].entropy == pytest.approx(3 / math.log(2))


def test_query_tokens_are_those_that_overlap_the_query() -> None:
    #                     <search> | _Al | dor</ | search>
    piece = Completion("<search> Aldor</search>", (1, 2, 3, 4),
                       np.array([-9, -1, -2, -9], np.float32), (8, 11, 16, 23))  # fmt: skip
    expected = np.mean([math.exp(-1) / math.log(2), math.exp(-2) * 2 / math.log(2)])
    assert query_entropy([(100, piece)], Span("search", 109, 114)) == pytest.approx(expected)
    with pytest.raises(EngineError, match="no token"):
        query_entropy([(0, piece)], Span("search", 50, 60))
    with pytest.raises(EngineError, match="no log-prob"):
        query_entropy([(0, piece._replace(logp=None))], Span("search", 9, 14))


def test_what_a_generator_cannot_do_is_said_at_once() -> None:
    plain = Script(planned(QUERIES), has=())
    with pytest.raises(EngineError, match="lacks logp"):
        SimToReal(plain, Names(), real="entropy")
    with pytest.raises(EngineError, match="lacks entropy"):
        SimToReal(Script(planned(QUERIES)), Names(), real="entropy", measure="full")
    (text,) = SimToReal(plain, Names(), real="all").run([ASK])
    assert [x.entropy for x in text.lookups] == [None] * 3
    for options, message in (
        ({"real": -1}, "'all' or 'entropy'"), ({"real": "some"}, "'entropy'"), ({"k": 0}, "k must"),
        ({"measure": "x"}, "'sampled' or"), ({"engine": None}, "needs an engine"),
    ):  # fmt: skip
        with pytest.raises(EngineError, match=message):
            SimToReal(plain, **{"engine": Names(), **options})
    with pytest.raises(DialectError, match="no self-search form"):
        SimToReal(plain, Names(), dialect="json_tools")


def test_a_search_quoted_within_information_is_none() -> None:
    def write(prompt: str) -> str:
        if "quoted" not in prompt:
            return (
                "<think>a</think><information>quoted <search>Aldor</search> end</information>"
                "<search>Quell</search>"
            )
        return " end</information><search>Quell</search>" if prompt.endswith("h>") and (
            "Quell" not in prompt) else "<answer>x</answer>"  # fmt: skip

    engine = Names()
    (text,) = SimToReal(Script(write), engine).run([ASK])
    assert [q.text for batch in engine.batches for q in batch] == ["Quell"]
    assert [x.query for x in text.lookups] == ["Quell"]


def test_nothing_found_is_said() -> None:
    text, _, _ = made(("nobody",))
    assert f"<information>{NOTHING}</information>" in text.text
    assert text.lookups[0].real
    assert text.lookups[0].hits == ()
    assert ssrl_format(text.text) == 1.0


def test_a_hostile_passage_ends_nothing() -> None:
    text, _, _ = made(("Trap", "Aldor"))
    parsed = get_dialect("search_r1_self").parse(text.text)
    assert parsed.action[0] == "Quell"
    assert len(text.lookups) == 2
    assert ssrl_format(text.text) == 1.0


def test_budgets() -> None:
    text, generator, _ = made(sampling=Sampling(max_tokens=60))
    assert text.finish == "length"
    assert sum(len(p.text) for _, p in text.pieces) == 60
    assert generator.asked[0][0].sampling.max_tokens == 60
    text, _, _ = made(["Aldor"] * 12, max_searches=3)
    assert sources(text) == [True] * 3 + [False] * 9
    text, _, _ = made(["Osten"], snippet_chars=15)
    assert "Osten is a rive<" in text.text
    # a policy that never stops searching without a query cannot keep us here
    babble = Script(lambda prompt: "</search>")
    (text,) = SimToReal(babble, Names(), sampling=Sampling(max_tokens=10**6)).run([ASK])
    assert text.lookups == ()
    assert len(babble.asked) < 50


def test_texts_are_written_and_searched_together() -> None:
    generator, engine = Script(planned(QUERIES)), Names()
    prompts = [ASK._replace(key=i, episode_id=f"e{i}") for i in range(5)]
    texts = SimToReal(generator, engine).run(prompts)
    assert [len(b) for b in engine.batches] == [5, 5, 5]
    assert len(generator.asked) == 4
    assert len({t.text for t in texts}) == 1
    assert {q.ctx.episode_id for q in engine.batches[0]} == {f"e{i}" for i in range(5)}
    assert len({q.ctx.key for b in engine.batches for q in b}) == 15


def test_failures_stay_with_their_text() -> None:
    again = Failure("timeout", "late")
    text, _, engine = made(engine=Names([again, again]))
    assert sources(text) == [True] * 3
    assert [q.ctx.attempt for b in engine.batches for q in b] == [0, 1, 2, 0, 0]
    text, _, engine = made(engine=Names([again] * 9))
    assert text == again
    gone = Failure("rejected", "no", retryable=False)
    texts = SimToReal(Script(planned(QUERIES)), Names([gone])).run([ASK, ASK])
    assert texts[0] == gone
    assert sources(texts[1]) == [True] * 3
    generator = Script(planned(QUERIES))
    generator.fail = [again] * 2
    (text,) = SimToReal(generator, Names()).run([ASK])
    assert sources(text) == [True] * 3
    generator.fail = [gone]
    assert SimToReal(generator, Names()).run([ASK]) == [gone]


def test_engines_that_must_be_told_the_task() -> None:
    engine = Names()
    engine.needs_task = True
    with pytest.raises(EngineError, match="task=task"):
        made(engine=engine)
    SimToReal(Script(planned(QUERIES)), engine).run([ASK._replace(task=TASKS[0])])
    assert engine.batches[0][0].ctx.task == TASKS[0]


def test_the_agent_plays_the_environment() -> None:
    e = SearchEnv(corpus=CORPUS, tasks=TASKS, engine="self")

    def write(prompt: str) -> str:
        said = prompt.rpartition("?\n")[2]
        if "<search>" not in said:
            return "<think>a</think><search>Aldor</search>"
        own = "" if said.rstrip().endswith("</information>") else "<information>?</information>"
        who = "Mira Venn" if "founded by Mira Venn" in said else "nobody"
        return f"{own}<think>b</think><answer>{who}</answer>"

    for engine, right in ((None, 0.0), (build_engine("bm25", CORPUS), 0.5)):
        agent = SelfSearchAgent(Script(write), engine)
        result = evaluate(agent, e)
        assert result.means["em"].mean == right
        assert ("bm25" in result.settings["agent"]["fingerprint"]) == (engine is not None)
    failing = Script(write)
    failing.fail = [Failure("timeout", "late")] * 9
    with pytest.raises(EngineError, match="after retries: late"):
        evaluate(SelfSearchAgent(failing), e)
    other = SearchEnv(corpus=CORPUS, tasks=TASKS)
    other.reset(seed=0)
    with pytest.raises(EpisodeError, match="engine='self'"):
        agent.act(other.requests())


# --- a real language model ----------------------------------------------------------------------
ASKED = "Question: In which town was the founder of Aldor born?\n"
OWN = "\n\n<information>Nobody\nknows.</information>\n\n"


@pytest.fixture(scope="module")
def policy() -> Any:
    """A two-layer Qwen2 that has learnt two texts by heart: one with results, one with its own."""
    import torch

    from searchgym.llms import TransformersGenerator

    form, engine = get_dialect("search_r1_self"), build_engine("bm25", CORPUS)

    def text(answer: str, real: bool) -> str:
        said = ASKED
        for query in ("Aldor founder", "Mira Venn born"):
            hits = engine.search([query], 1)[0]  # type: ignore[attr-defined]
            found = form.render_hits([(query, hits)]) if real else OWN
            said += f"<think>a</think><search>{query}</search>{found}"
        return f"{said}<think>b</think><answer>{answer}</answer>"

    rows = [text("Quell", True), text("Aldor", False)]
    words = tiny.tokenizer().train_new_from_iterator(rows, 400)
    ids = [[*words.encode(row), words.eos_token_id] for row in rows]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = tiny.model("qwen2", 400, initializer_range=0.05)
        width = max(map(len, ids))
        batch = torch.tensor([row + [0] * (width - len(row)) for row in ids])
        labels = torch.tensor([row + [-100] * (width - len(row)) for row in ids])
        optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3)
        for _ in range(200):
            loss = model(input_ids=batch, labels=labels).loss
            if loss.item() < 0.025:  # the rest is what it cannot know
                break
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    assert loss.item() < 0.05
    return TransformersGenerator(model.eval(), words, device="cpu"), engine, rows


def test_a_real_model_resumes_after_real_results(policy: Any) -> None:
    generator, engine, rows = policy
    greedy = Sampling(max_tokens=200, temperature=0)
    alone, grounded = (
        SimToReal(generator, engine, real=real, k=1, sampling=greedy).run([Prompt(ASKED)])[0]
        for real in (0, "all")
    )
    assert ASKED + grounded.text == rows[0]
    assert sources(grounded) == [True, True]
    assert len(grounded.pieces) == 3
    assert all(x.entropy is not None and 0 <= x.entropy < 0.54 for x in grounded.lookups)
    form = get_dialect("search_r1_self")
    assert form.parse(grounded.text).action[0] == "Quell"
    assert ssrl_format(grounded.text) == 1.0
    # the policy's own text: its mask from the tokens as they were sampled
    assert ASKED + alone.text in rows, "one uninterrupted generation, by heart"
    ((at, piece),) = alone.pieces
    assert at == 0
    mask = loss_mask(piece.text, form.parse(piece.text).spans, piece.ends)
    assert len(mask) == len(piece.ids)
    trained = generator.codec.decode([i for i, m in zip(piece.ids, mask, strict=True) if m])
    assert "information" not in trained
    assert "<think>a</think><search>Aldor founder</search" in trained


def test_an_agent_refuses_an_engine_that_must_be_told_the_task() -> None:
    class Told:
        needs_task = True
        fingerprint = "told"

    with pytest.raises(EngineError, match="no agent is"):
        SelfSearchAgent(Script(lambda text: ""), Told())
