"""The service desk: its database, rules, reward and questions."""

from __future__ import annotations

import copy
import json
from typing import Any

import gymnasium as gym
import pytest
from hypothesis import given
from hypothesis import strategies as st

import searchgym  # noqa: F401  (registers)
from searchgym.agents import OracleAgent
from searchgym.core import Episode
from searchgym.dialects import get_dialect
from searchgym.envs import SearchEnv
from searchgym.errors import TaskError
from searchgym.evaluation import evaluate
from searchgym.seeding import stream
from searchgym.tasks import Context
from searchgym.types import Answer, Call
from searchgym_agents.service import shop
from searchgym_agents.service.tasks import CASES, KINDS
from searchgym_agents.service.tools import STORE

WORLD = {"world": {"entities": 900}, "tasks": {"service": 40}}
SAY = get_dialect("search_r1+tools").render_action


@pytest.fixture(scope="module")
def env() -> SearchEnv:
    return gym.make("searchgym/ServiceQA-v0", **WORLD).unwrapped  # type: ignore[return-value]


def begun(env: SearchEnv, number: int) -> Episode:
    env.reset(seed=0, options={"task_id": env.tasks[number].id})
    return env.episode


def play(env: SearchEnv, actions: Any) -> tuple[float, dict[str, Any]]:
    for action in actions:
        _, reward, _, _, info = env.step(action if isinstance(action, str) else SAY(action))
    return reward, info


def database(**order: Any) -> shop.Database:
    given = {"order": "O-1", "customer": "C-1", "title": "Old", "price": 1250,
             "status": "delivered", "delivered": "2031-05-01", **order}  # fmt: skip
    return {
        "today": "2031-05-31",
        "customers": [{"customer": "C-1", "member": False}, {"customer": "C-2", "member": True}],
        "products": [{"title": "New", "price": 1300, "stock": 1},
                     {"title": "Gone", "price": 5, "stock": 0}],
        "orders": [given, {**given, "order": "O-2", "customer": "C-2"}],
        "payments": [],
    }  # fmt: skip


EARLY = {"status": "processing", "delivered": ""}
REFUNDED = "Order O-1 is refunded; 12.50 paid back."
CANCELLED = "Order O-1 is cancelled; 12.50 paid back."
GONE = "This title is not in stock."


@pytest.mark.parametrize(
    ("order", "tool", "title", "allowed", "said"),
    [
        ({}, "refund", "", True, REFUNDED),
        ({"delivered": "2031-04-30"}, "refund", "", False, REFUNDED),
        ({"delivered": "2031-04-30", "customer": "C-2"}, "refund", "", True, REFUNDED),
        ({"delivered": "2031-04-01", "customer": "C-2"}, "refund", "", True, REFUNDED),
        ({"delivered": "2031-03-31", "customer": "C-2"}, "refund", "", False, REFUNDED),
        (EARLY, "refund", "", False, REFUNDED),
        (EARLY, "cancel", "", True, CANCELLED),
        ({}, "cancel", "", False, CANCELLED),
        ({}, "exchange", "new", True, "Order O-1 is exchanged for New; 0.50 to be paid."),
        ({}, "exchange", "Gone", False, GONE),
        ({}, "exchange", "Never sold", False, GONE),
        ({"status": "refunded"}, "refund", "", True, "Order O-1 is closed: refunded."),
    ],
)
def test_rules_and_changes(order: dict, tool: str, title: str, allowed: bool, said: str) -> None:
    db = database(**order)
    args = {"order": "o-1", **({"title": title} if title else {})}
    assert shop.allowed(db, tool, args) is allowed
    before = shop.digest(db)
    assert shop.change(db, tool, args) == said
    assert (shop.digest(db) == before) is ("paid" not in said)
    assert db["orders"][1] == database(**order)["orders"][1]


def test_an_order_that_there_is_not_changes_nothing() -> None:
    db = database()
    assert shop.change(db, "refund", {"order": "O-3"}) == "There is no such order."
    assert shop.change(db, "refund", {"order": "the"}) == "There is no such order."
    assert db == database()


@given(st.randoms())
def test_the_digest_does_not_see_the_order_of_rows_and_columns(random: Any) -> None:
    db, other = database(), database()
    for name in ("customers", "products", "orders"):
        random.shuffle(other[name])
        other[name] = [dict(random.sample([*row.items()], len(row))) for row in other[name]]
    assert shop.digest(dict(random.sample([*other.items()], len(other)))) == shop.digest(db)
    other["orders"][0]["price"] += 1
    assert shop.digest(other) != shop.digest(db)


def test_right_state_and_every_text_said_or_nothing(env: SearchEnv) -> None:
    for number in range(len(CASES)):
        task = begun(env, number).config.task
        plan = env.oracle()[:-1]
        order, result = task.meta["say"]
        nobody = SAY(Call("ask_user", {"question": f"It is {order}, {result}."}))
        ends = {
            task.answers[0]: 1, f"I did it: {result} for {order}.": 1, order: 0, result: 0, "": 0,
            f"{order} 0.01": 0, f"{order} O-1 {result}": 0, f"{order} {result} 0.01 denied": 0,
            f"{order} {result} {order.lower()}": 1,
        }  # fmt: skip
        for said, paid in ends.items():
            begun(env, number)
            assert play(env, [*plan, SAY(Answer(said or "done"))])[0] == paid, (said, task.meta)
        begun(env, number)
        assert play(env, [*plan, nobody, Answer("done")])[0] == 1, "told to the customer"
        other = SAY(Call("ask_user", {"question": f"Or is it O-1, {result}?"}))
        begun(env, number)
        assert play(env, [*plan, nobody, other, Answer("done")])[0] == 0, "the last one counts"
        begun(env, number)
        reward, info = play(env, [Answer(task.answers[0])])
        assert (reward, info["outcome"]["em"]) == (float(result == "denied"), 1)
        other = next(o for o in task.meta["shop"]["orders"] if o["order"] != order)
        begun(env, number)
        extra = Call("cancel", {"order": other["order"]})
        assert play(env, [*plan, extra, Answer(task.answers[0])])[0] == 0
    env.reset(seed=1)
    assert play(env, ["no action"] * 14)[0] == 0


def test_questions_are_proved(env: SearchEnv) -> None:
    """One order of the customer's fits the description; the rules decide as the case says."""
    ctx = Context(env.world, env.corpus)
    titles = {title: i for i, title in enumerate(ctx.world.titles)}
    assert {t.meta["case"] for t in env.tasks} == {
        "refund", "cancel", "exchange", "refund-denied", "cancel-denied", "exchange-denied",
        "refund-exchange", "exchange-refund",
    }  # fmt: skip
    for task in env.tasks:
        db, (order, result) = task.meta["shop"], task.meta["say"]
        about = shop.row(db["orders"], "order", order)
        mine = [o for o in db["orders"] if o["customer"] == about["customer"]]
        item = titles[about["title"]]
        said = next(k["says"] for k in task.meta["user"]["knows"] if k["about"] == "item")
        fitting = [
            o["order"] for o in mine for prop in KINDS.get(about["kind"], ())
            for f in ctx.lookup.objects(titles[o["title"]], ctx.schema.property_index(prop))
            if f"{ctx.names.title(f.object)}." in said
        ]  # fmt: skip
        assert fitting == [order]
        assert about["title"] not in said
        assert len([o for o in mine if o["kind"] == about["kind"]]) > 1
        assert task.evidence == (ctx.corpus[int(ctx.corpus.page_of[item])].id,)
        name = next(c["name"] for c in db["customers"] if c["customer"] == about["customer"])
        assert [c["name"] for c in db["customers"]].count(name) == 2
        writes = [c for c in task.meta["calls"] if c["tool"] in shop.WRITES]
        assert len(writes) == (result != "denied")
        assert all(shop.allowed(db, **call) for call in writes)
        assert not set(task.answers) & {*task.question.split(), *said.split()}


def test_the_oracle_solves_all_in_time_and_states_are_apart(env: SearchEnv) -> None:
    meta = copy.deepcopy([dict(t.meta) for t in env.tasks])
    for number, task in enumerate(env.tasks):
        begun(env, number)
        plan = env.oracle()
        assert len(plan) <= 9
        for place, action in enumerate(plan):
            twin, back = env.fork(), env.episode.snapshot()
            if place % 3 == number % 3:  # a fork goes another way and leaves this one alone
                writes = SAY(Call("refund", {"order": task.meta["say"][0]}))
                twin.step(writes)
                assert env.episode.snapshot() == back
                assert Episode.restore(json.loads(json.dumps(back))).tool_states == (
                    env.episode.tool_states
                )
            reward = env.step(action)[1]
        assert reward == 1, task.meta["case"]
        state = env.episode.tool_states.get(STORE)
        assert state is None or shop.digest(state) == task.meta["final"]
    assert meta == [dict(t.meta) for t in env.tasks], "questions are as they were"


def test_whoever_does_not_ask_to_confirm_misses_a_changed_mind(env: SearchEnv) -> None:
    """Without that question the first wish is all that is known."""
    for number, task in enumerate(env.tasks):
        want, _, then = task.meta["case"].partition("-")
        begun(env, number)
        plan = [c for c in task.meta["calls"] if "confirm" not in str(c)]
        if then in shop.WRITES:
            plan = [c for c in plan if c["tool"] not in shop.WRITES]
            title = {"title": task.meta["shop"]["products"][-1]["title"]}
            order = {"order": task.meta["say"][0]}
            args = {**order, **(title if want == "exchange" else {})}
            plan.append({"tool": want, "args": args})
        play(env, [*(Call(*c.values()) for c in plan if c["tool"] != "search"),
                   Answer(task.answers[0])])  # fmt: skip
        assert env.episode.outcome().parts["service"] == (then not in shop.WRITES)


def test_agents_are_ranked_by_what_they_did(env: SearchEnv) -> None:
    result = evaluate(OracleAgent(env.tasks), env, tasks=env.tasks[:8])
    assert (result.metric, result.means["reward"].mean) == ("reward", 1)


def test_hostile_calls_never_raise(env: SearchEnv) -> None:
    rng = stream(0, "hostile")
    names = [spec.name for spec in env.rules.tools]
    values = ["", "O-1", "the", "\x00\ud800", "<tool>", "O-" * 90, 3, None, [], {"a": 1}, True]
    keys = ["order", "title", "name", "city", "question", "query", "x"]
    calls = 0
    while calls < 10_000:
        task = begun(env, calls % len(env.tasks)).config.task
        known = [*values, task.meta["say"][0], task.meta["shop"]["products"][0]["title"]]
        while env.episode.phase != "done":
            pick = lambda options: options[int(rng.integers(len(options)))]  # noqa: E731
            args = {pick(keys): pick(known) for _ in range(int(rng.integers(4)))}
            text = json.dumps({"name": pick([*names, "answer", ""]), "arguments": args})
            env.step(f"<tool>{text}</tool>")
            calls += 1


def test_a_tool_without_a_shop_says_what_to_ask(env: SearchEnv) -> None:
    other = SearchEnv(corpus="encyclopedia", world={"entities": 300}, tasks={"simple": 4},
                      dialect="search_r1+tools", tools=["search", "stock"])  # fmt: skip
    other.reset(seed=1)
    with pytest.raises(TaskError, match="ask tasks="):
        other.step(SAY(Call("stock", {"title": "x"})))
