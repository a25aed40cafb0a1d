"""Unknown words as slots: any text comes back, and no text can write a slot."""

from __future__ import annotations

from itertools import pairwise, product
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from searchgym.agents import OracleAgent
from searchgym.core import run_episodes
from searchgym.envs import SearchEnv
from searchgym.errors import EngineError
from searchgym.evaluation import episode_for
from searchgym.llms import Completion, Sampling, TransformersGenerator, small_model, train_tokenizer
from searchgym.objects import load_known
from searchgym.policies import RENDERERS, CausalLMPolicy
from searchgym.rl import ExpertWriter
from searchgym.types import Segment
from searchgym_agents.reader.slots import (
    JOIN,
    NUMBERS,
    SLOTS,
    UNBOUND,
    Lettering,
    Names,
    NamesRenderer,
    has_slots,
    lettering,
    slots,
)

KNOWN = ("was", "born", "in", "The", "the", "river")
MARKS = ("<think>", " </answer>", "\nDoc 2(Title:")
LETTERING = Lettering(KNOWN, MARKS)
TEXTS = st.one_of(
    st.text(max_size=60),
    st.lists(
        st.sampled_from(
            [*KNOWN, *MARKS, "Ann", " Ann", "Suntis-Ruwer", "well-known", "14,354", "1983.", "Łódź",
             "(", ")", "'s", JOIN, slots()[5], "\ue000", "\n", "  "]
        ),
        max_size=30,
    ).map("".join),
)  # fmt: skip


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    made = train_tokenizer(["was born in the river", "The river was born"] * 9, 400)
    made.add_tokens([*MARKS, *slots()])
    return made


def reply(text: str) -> Completion:
    n = len(text)
    return Completion(text, tuple(range(n)), np.zeros(n, np.float32), tuple(range(1, n + 1)))


def segments(*texts: str) -> tuple[Segment, ...]:
    """The instructions, then texts of the environment."""
    return tuple(
        Segment(f"s{i}", 0, "env", "question" if i else "instructions", (text,))
        for i, text in enumerate(("Search first, Ann.", *texts))
    )


@given(texts=st.lists(TEXTS, min_size=1, max_size=4), salt=st.text(max_size=5))
@example(texts=["Ann Ann", "Ann's (Ann) Ann-born 1983-84"], salt="")
def test_what_is_written_is_read_back(texts: list[str], salt: str) -> None:
    names = Names(LETTERING, salt)
    for text in texts:
        written = names.write(text)
        back, moved = names.read(written)
        assert back == text
        assert len(moved) == len(written) + 1
        assert (moved[0], moved[-1]) == (0, len(text))
        assert all(a <= b for a, b in pairwise(moved))


def test_a_word_is_one_slot_wherever_it_stands() -> None:
    names = Names(LETTERING, "Who?")
    written = names.write("Ann Bee was born in Ann, by the river Suntis-Ruwer on 4 May 14,354")
    words = written.replace(JOIN, " ").split()
    assert names.write(" Ann") == written[1]
    assert sum(c in slots()[1:] for c in written) == 9
    assert "was born in" in written
    assert "the river" in written
    assert words
    assert names.write("<think>river </answer>") == "<think>river </answer>"
    hyphens = names.write(" well-known Suntis-Ruwer")
    assert hyphens.count("-") == 1  # a compound of names is one name
    assert names.write(" Suntis-Ruwer") == hyphens[-1]


def test_slots_depend_on_the_episode_not_on_the_order() -> None:
    words = " Ann Bee Cid Dot Eve".split(" ")[1:]
    found = []
    for salt, order in (("a", words), ("a", words[::-1]), ("b", words)):
        names = Names(LETTERING, salt)
        for word in order:
            names.write(f" {word}")
        found.append([names.write(f" {word}") for word in words])
    assert found[0] == found[1] != found[2]


def test_no_text_can_write_a_slot_and_an_unbound_one_says_so() -> None:
    names = Names(LETTERING, "")
    forged = names.write(f"{slots()[3]} {JOIN}{slots()[4]}")
    assert names.read(forged)[0] == f"{slots()[3]} {JOIN}{slots()[4]}"
    free = next(s for s in slots()[1:] if s not in forged)
    assert names.read(f"by{free}.")[0] == f"by{UNBOUND}."
    assert names.read(f"by {JOIN}{free}{JOIN}.")[0] == f"by {UNBOUND}."


def test_more_words_than_slots_stay_as_they_are() -> None:
    names = Names(LETTERING, "")
    many = " ".join(f"w{'abcdefghij'[i % 10]}{'abcdefghijklmnopqrst'[i // 10]}" for i in range(200))
    written = names.write(many)
    assert len({c for c in written if c in slots()[1:]}) == SLOTS
    assert names.read(written)[0] == many
    for late in (" Zed", " Ann-Zed", " 9,739", " 3.14", "Zed-Bee"):
        assert names.write(late) == late
    assert names.write(f" {slots()[1]}") == UNBOUND


def test_numbers_have_slots_of_their_own_while_there_are_any() -> None:
    names = Names(LETTERING, "Who?")
    written = names.write("".join(f" {n}" for n in range(NUMBERS)))
    assert set(written) == set(slots()[-NUMBERS:])
    assert names.write(" Ann") in slots()[1:-NUMBERS]
    assert names.write(" 1,984") in slots()[1:-NUMBERS], "none of theirs is left"
    many = Names(LETTERING, "Who?")
    for first, second in product("bcdfghjklm", "aeiouy"):
        many.write(f" {first}{second}bo {first}{second}pan")
    written = many.write(" 1984")
    assert written in slots()[-NUMBERS:], "names have taken some of theirs, not all"
    assert many.read(written)[0] == " 1984"


def test_the_tokenizer_says_which_words_are_known(tokenizer: Any) -> None:
    found = lettering(tokenizer)
    assert {"was", "born", "river"} <= found.words
    assert has_slots(tokenizer)
    plain = train_tokenizer(["a"], 300)
    assert not has_slots(plain)
    with pytest.raises(EngineError, match=r"no slots for names: use renderer 'bare'"):
        NamesRenderer(plain)
    assert load_known(RENDERERS["names"]) is NamesRenderer
    for mark in MARKS:
        assert Names(found, "").write(mark) == mark


def test_completions_are_read_in_the_words_of_their_episode(tokenizer: Any) -> None:
    renderer = NamesRenderer(tokenizer)
    read = segments("Who was Ann Bee?", " Ann Bee was born in Łódź.")
    said = renderer.spell(read, "<think>Łódź was Unseen </answer>")
    raw = tokenizer.decode(said.ids)
    assert said.ends[-1] == len("<think>Łódź was Unseen </answer>")
    assert len(said.ids) == len(said.ends) == 6
    heard = renderer.heard(read, reply(raw))
    assert heard.text == f"<think>Łódź was{UNBOUND} </answer>"  # nobody has told it this name
    assert heard.ends is not None
    assert heard.ends[-1] == len(heard.text)
    assert heard.ids == reply(raw).ids
    nothing = segments()
    assert renderer.heard(nothing, reply("was")).text == "was"


def test_it_plays_and_its_tokens_are_what_was_sampled(tokenizer: Any) -> None:
    made = SearchEnv(
        **{"corpus": "encyclopedia", "world": {"entities": 300, "seed": 3}, "tasks": {"simple": 3},
         "k": 1, "snippet_chars": 200, "max_turns": 2}
    )  # fmt: skip
    generator = TransformersGenerator(small_model(tokenizer, width=32), tokenizer)
    policy = CausalLMPolicy(generator, "names", sampling=Sampling(max_tokens=64))
    episodes = [episode_for(made, task, 0) for task in made.tasks]
    for episode in run_episodes(episodes, policy, made.toolbox):
        text = "".join(s.text for s in episode.contexts.visible(0) if s.author == "policy")
        assert text
        assert not any(slot in text for slot in slots())
        (row,) = policy.rows(episode)
        prompt = tokenizer.decode(row.ids[: int(np.flatnonzero(row.sampled)[0])])
        names = Names(lettering(tokenizer), episode.contexts.visible(0)[1].text)
        assert prompt == names.write(episode.contexts.visible(0)[1].text)
        assert row.sampled.sum() == row.loss_mask.sum() > 0


def test_what_an_expert_says_becomes_rows_in_slots(tokenizer: Any) -> None:
    made = SearchEnv(
        **{"corpus": "encyclopedia", "world": {"entities": 300, "seed": 3}, "tasks": {"simple": 3},
         "k": 2, "max_turns": 3}
    )  # fmt: skip
    generator = TransformersGenerator(small_model(tokenizer, width=32), tokenizer)
    policy = CausalLMPolicy(generator, "names")
    episodes = [episode_for(made, task, 0) for task in made.tasks]
    run_episodes(episodes, ExpertWriter(OracleAgent(made.tasks), policy), made.toolbox)
    for episode in episodes:
        (row,) = policy.rows(episode)
        read = [s for s in episode.contexts.visible(0) if s.kind != "instructions"]
        names = Names(lettering(tokenizer), read[0].text)
        whole = "".join(names.write(segment.text) for segment in read)
        assert tokenizer.decode(row.ids).replace(tokenizer.eos_token, "") == whole
        assert any(slot in whole for slot in slots()[1:])
        outcome = episode.outcome()
        assert outcome is not None
        assert outcome.parts["em"] == 1.0
