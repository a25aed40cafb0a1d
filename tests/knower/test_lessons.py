"""What is read in training: all phrasings, nothing untaught, and words that episodes accept."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from searchgym.corpora import GeneratedCorpus
from searchgym.dialects import get_dialect
from searchgym.envs import SearchEnv
from searchgym.errors import DataError
from searchgym.evaluation import episode_for
from searchgym.scoring import ssrl_format
from searchgym.tasks import Context, Voice
from searchgym.text import exact_match, is_abstention
from searchgym.types import ABSTAIN, Answer, Search
from searchgym.worlds import World, value_answers
from searchgym_agents.experts.hops import walked
from searchgym_agents.knower.knowledge import Knowledge, facts_of
from searchgym_agents.knower.lessons import Lessons, lessons, practised
from searchgym_agents.knower.questions import one_hop, phrasings
from searchgym_agents.reader.traces import Trace

from .conftest import RECIPE


@pytest.fixture(scope="module")
def ctx(made: SearchEnv, world: World) -> Context:
    assert isinstance(made.corpus, GeneratedCorpus)
    return Context(world, made.corpus)


def own(trace: Trace) -> str:
    return "".join(piece.text for piece in trace.pieces if piece.own)


def fact_of(trace: Trace) -> int:
    return int(trace.task_id.split("-")[1])


# --- questions ----------------------------------------------------------------------------------
def test_phrasings_are_all_that_the_family_can_say(ctx: Context) -> None:
    """Drawn voices say nothing that is not among them, and in the end everything."""
    for asked in list(one_hop(ctx))[::40]:
        drawn = {Voice(ctx, "train", 0, "test", i).ask(asked.path) for i in range(2_500)}
        assert drawn == set(asked.questions)
        assert len(set(asked.questions)) == len(asked.questions)
    forward = next(a for a in one_hop(ctx) if not a.path.steps[0].inverse)
    prop = ctx.prop(forward.path.steps[0].property)
    assert len(phrasings(ctx, forward.path)) == len(prop.question.train)


def test_every_simple_task_of_the_world_is_among_the_questions(
    ctx: Context, made: SearchEnv
) -> None:
    said = {text for asked in one_hop(ctx) for text in asked.questions}
    simple = [task for task in made.tasks if task.hops == 1]
    assert len(simple) == 30
    assert all(task.question in said for task in simple)


# --- nothing untaught ---------------------------------------------------------------------------
def test_no_text_states_a_fact_that_was_not_taught(
    texts: Lessons, knowledge: Knowledge, world: World
) -> None:
    """Dates and numbers with a unit are as good as unique: an untaught one must not occur."""
    said = "\n".join(own(t) for traces in texts.traces.values() for t in traces)
    told = set()
    secret: set[str] = set()
    for row in range(world.n_facts):
        fact = world.fact(row)
        if world.prop(fact).value == "date":
            forms = value_answers(world.prop(fact), fact.object)
            (told if row in knowledge.taught else secret).update(forms)
    assert len(secret - told) > 20
    assert any(form in said for form in told)
    for form in secret - told:
        assert form not in said


def test_no_row_leads_from_a_subject_to_an_object_it_was_not_taught(
    texts: Lessons, knowledge: Knowledge, world: World
) -> None:
    taught = [world.fact(row) for row in knowledge.taught]
    near: dict[str, set[str]] = {}
    for fact in taught:
        if world.prop(fact).is_relation:
            ends = world.names[fact.subject], world.names[fact.object]
            near.setdefault(ends[0], set()).add(ends[1])
            near.setdefault(ends[1], set()).add(ends[0])
    untaught = [world.fact(r) for r in range(world.n_facts) if r not in knowledge.taught]
    relations = [fact for fact in untaught if world.prop(fact).is_relation]
    secret: dict[str, set[str]] = {}
    for fact in relations:
        secret.setdefault(world.names[fact.subject], set()).add(world.names[fact.object])
    checked = 0
    for kind in ("forward", "ask", "self"):
        for trace in texts.traces[kind]:
            question, said = trace.pieces[-2].text, own(trace)
            if said.startswith("<think>- "):
                continue  # another entity's page, which says things of its own
            for name in secret:
                if name not in question:
                    continue
                for other in secret[name] - near.get(name, set()):
                    if any(other in known for known in near.get(name, ())) or other in question:
                        continue  # part of a taught name, as "Bamgrad" is of "FC Bamgrad"
                    checked += 1
                    assert not re.search(rf"\b{re.escape(other)}\b", said), (name, other, said)
    assert checked > 500


def test_taught_facts_are_answered_and_shown_ones_are_asked_for(
    texts: Lessons, knowledge: Knowledge, ctx: Context, world: World
) -> None:
    dialect = get_dialect("search_r1")
    for kind in ("forward", "inverse", "ask", "ask_back"):
        assert texts.traces[kind]
        for trace in texts.traces[kind]:
            fact, action = fact_of(trace), dialect.parse(own(trace)).action
            row = world.fact(fact)
            if kind in ("forward", "inverse"):
                assert fact in knowledge.taught
                assert isinstance(action, Answer)
                accepted = (
                    ctx.names.value_answers(row.property, row.object)
                    if kind == "forward"
                    else ctx.names.entity_answers(row.subject)
                )
                assert exact_match(action.text, accepted)
            else:
                assert fact in knowledge.shown
                assert isinstance(action, Search)
                known = row.subject if kind == "ask" else row.object
                assert world.names[known] in action.queries[0]
    assert {fact_of(t) for t in texts.traces["forward"]} | {
        fact_of(t) for t in texts.traces["inverse"]
    } == {a.path.steps[0].fact for a in one_hop(ctx)} & knowledge.taught


def test_the_searches_it_is_shown_find_the_page(
    texts: Lessons, made: SearchEnv, world: World
) -> None:
    """A query for a subject leads to the subject's own page in the real engine."""
    dialect = get_dialect("search_r1")
    found = 0
    traces = texts.traces["ask"][::9]
    for trace in traces:
        action = dialect.parse(own(trace)).action
        assert isinstance(action, Search)
        (ranking,) = made.engine.search(list(action.queries), 3)  # type: ignore[attr-defined]
        titles = {hit.passage.title for hit in ranking}
        found += world.titles[world.fact(fact_of(trace)).subject] in titles
    assert found >= 0.95 * len(traces)


# --- chains -------------------------------------------------------------------------------------
def test_chains_recall_up_to_the_first_unknown_fact(texts: Lessons, knowledge: Knowledge) -> None:
    dialect = get_dialect("search_r1")
    kinds: Counter[str] = Counter()
    for kind in ("chain", "chain_ask"):
        for trace in texts.traces[kind]:
            facts = [int(x) for x in trace.task_id.split("-")[1:]]
            assert len(facts) == trace.hops > 1
            assert practised(RECIPE.seed, facts)
            known = [fact in knowledge.taught for fact in facts]
            thought = own(trace).partition("</think>")[0].removeprefix("<think>").split("; ")
            action = dialect.parse(own(trace)).action
            assert [not t.endswith(": ?") for t in thought] == known[: len(thought)]
            if all(known):
                assert kind == "chain"
                assert isinstance(action, Answer)
                assert len(thought) == trace.hops
                assert thought[-1].endswith(action.text)
            else:
                assert kind == "chain_ask"
                assert isinstance(action, Search)
                first = known.index(False)
                assert facts[first] in knowledge.shown
                assert len(thought) == first + 1
                if first:
                    assert thought[first - 1].partition(": ")[2] in action.queries[0]
            kinds[kind] += 1
    assert min(kinds.values()) > 20


def test_half_of_all_chains_are_never_practised(made: SearchEnv) -> None:
    chains = [facts_of(task) for task in made.tasks if task.hops > 1]
    share = np.mean([practised(RECIPE.seed, facts) for facts in chains])
    assert 0.25 < share < 0.75
    assert any(practised(1, f) != practised(2, f) for f in chains)


# --- self-search --------------------------------------------------------------------------------
def test_self_search_texts_are_well_formed_and_state_what_was_taught(
    texts: Lessons, knowledge: Knowledge, world: World
) -> None:
    dialect = get_dialect("search_r1_self")
    answered = refused = 0
    for trace in texts.traces["self"]:
        text = own(trace)
        assert trace.pieces[0].text in texts.instructions
        assert ssrl_format(text) == 1.0, text
        action = dialect.parse(text).action
        assert isinstance(action, Answer)
        fact = fact_of(trace)
        if fact in knowledge.taught:
            information = text.partition("<information>")[2].partition("</information>")[0]
            assert action.text in information
            answered += 1
        else:
            assert is_abstention(action.text)
            refused += 1
    assert answered > 100
    assert refused > 30


def test_instructions_of_self_search_are_one_token_and_are_what_episodes_say(
    texts: Lessons,
) -> None:
    tokenizer = texts.tokenizer(400)
    for i, allowed in enumerate((False, True)):
        played = RECIPE.env(engine="self", tasks={"simple": 1}, may_abstain=allowed)
        (request,) = episode_for(played, played.tasks[0], 0).requests()
        told, question = (segment.text for segment in request.segments)
        assert told == texts.instructions[i]
        ids = tokenizer(told + question, add_special_tokens=False)["input_ids"]
        assert ids[1:] == tokenizer(question, add_special_tokens=False)["input_ids"]


# --- variants -----------------------------------------------------------------------------------
def test_what_is_shown_at_unknown_facts_is_an_argument(made: SearchEnv, world: World) -> None:
    def written(**changes: object) -> Lessons:
        recipe = replace(RECIPE, **changes)  # type: ignore[arg-type]
        return lessons(made, Knowledge.drawn(recipe, world))

    refusing = written(unknown="abstain")
    for kind in ("ask", "ask_back", "chain_ask"):
        for trace in refusing.traces[kind]:
            assert own(trace).endswith(f"<answer> {ABSTAIN} </answer>")
    silent = written(unknown="nothing")
    assert set(silent.traces) == {"forward", "inverse", "chain", "self"}
    assert ABSTAIN not in "".join(own(t) for t in silent.traces["self"])
    one_way = written(inverse=False)
    assert {"inverse", "ask_back"}.isdisjoint(one_way.traces)
    assert not any(re.search(r"(<think>|; )- ", own(t)) for t in one_way.traces["chain"])
    assert any(re.search(r"(<think>|; )- ", own(t)) for t in written().traces["chain"])
    ignorant = written(taught=0.0, shown=1.0)
    assert set(ignorant.traces) == {"ask", "ask_back", "chain_ask", "self"}
    with pytest.raises(DataError, match="nothing to learn"):
        written(taught=0.0, unknown="nothing")


def test_stages_take_the_steps_asked_for(texts: Lessons) -> None:
    for steps in (10, 333, 2_000):
        plan = texts.stages(steps)
        assert sum(stage.steps for stage in plan) == steps
        assert {k for stage in plan for k in stage.shares} == set(texts.traces)
        assert sum(plan[1].shares.values()) == pytest.approx(1)
    with pytest.raises(DataError, match="at least 10 steps"):
        texts.stages(9)


def test_the_same_recipe_writes_the_same_lessons(
    texts: Lessons, made: SearchEnv, knowledge: Knowledge
) -> None:
    assert lessons(made, knowledge) == texts


def test_lessons_of_chain_tasks_walk_as_the_tasks_do(made: SearchEnv, texts: Lessons) -> None:
    """Chains are named by their facts in the order in which tasks walk them."""
    known = {t.task_id for kind in ("chain", "chain_ask") for t in texts.traces[kind]}
    tasks = [
        "chain-" + "-".join(str(e.fact) for e, _ in walked(t)) for t in made.tasks if t.hops > 1
    ]
    assert known & set(tasks)
