"""Trips: plans as text, what is feasible, the cheapest plan, the reward of two levels."""

from __future__ import annotations

import json
from typing import Any

import gymnasium as gym
import pytest
from hypothesis import given
from hypothesis import strategies as st

import searchgym  # noqa: F401  (registers)
from searchgym.core import Episode
from searchgym.dialects import get_dialect
from searchgym.envs import SearchEnv
from searchgym.errors import TaskError
from searchgym.seeding import stream
from searchgym.types import Answer, Call
from searchgym_agents.travel.plans import (
    Step,
    cheapest,
    fault,
    minutes_of,
    read_plan,
    written,
)
from searchgym_agents.travel.reward import details
from searchgym_agents.travel.tasks import SLACK, _trip, first_of_all

SAY = get_dialect("search_r1+tools").render_action


def train(name: str, start: str, end: str, day: int, leaves: int, arrives: int) -> dict[str, Any]:
    return {"train": name, "start": start, "end": end, "day": day, "leaves": leaves,
            "arrives": arrives, "price": 1000}  # fmt: skip


TRIP = {
    "home": "Oru", "city": "Ulm", "days": 2, "budget": 7000, "wanted": ["Old Tower", "Zoo"],
    "trains": [train("T1", "Oru", "Ulm", 1, 480, 600), train("T2", "Ulm", "Oru", 2, 1000, 1100),
               train("T3", "Ulm", "Oru", 2, 500, 600), train("T4", "Ulm", "Bad", 1, 700, 720)],
    "hotels": [{"hotel": "Hotel A", "city": "Ulm", "price": 4000},
               {"hotel": "Hotel B", "city": "Bad", "price": 10}],
    "places": [
        {"place": "Old Tower", "city": "Ulm", "opens": 600, "closes": 720, "closed": 2,
         "minutes": 60, "price": 500},
        {"place": "Zoo", "city": "Ulm", "opens": 540, "closes": 700, "closed": 0, "minutes": 90,
         "price": 300},
    ],
}  # fmt: skip
PLAN = (
    "1 | train | T1 | 08:00 | 10.00; 1 | visit | old tower | 10:30 | 5.00; 1 | hotel | Hotel A | "
    "night | 40.00; 2 | visit | Zoo | 09:00 | 3.00; 2 | train | T2 | 16:40 | 10.00"
)


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("", "there is no step"),
        (" ; ;", "there is no step"),
        ("1 | walk | x | 10:00 | 1.00", "step 1 is not DAY"),
        ("1 | train | x | 10:00", "step 1 is not DAY"),
        ("x | train | x | 10:00 | 1.00", "step 1 begins with no day"),
        ("9999 | train | x | 10:00 | 1.00", "step 1 begins with no day"),
        ("1|TRAIN|x|10:00|1.00", [Step(1, "train", "x", "10:00", "1.00")]),
        ("1 | hotel | x | night | 1.00;" * 61, "at most 60 steps"),
        ("a" * 8_001, "at most 8000 characters"),
    ],
)
def test_reading_plans(text: str, read: Any) -> None:
    got = read_plan(text)
    assert (read in got) if isinstance(read, str) else got == read


def test_a_plan_reads_back_as_it_was_written() -> None:
    steps = read_plan(PLAN)
    assert isinstance(steps, list)
    assert read_plan(written(steps)) == steps


@pytest.mark.parametrize(
    ("text", "minutes"),
    [("08:10", 490), ("8:10", 490), ("23:59", 1439), ("24:00", None), ("08:60", None),
     ("8", None), ("08:1", None), ("-1:00", None), ("008:10", None), ("٠٨:١٠", 490), ("", None)],
)  # fmt: skip
def test_times(text: str, minutes: int | None) -> None:
    assert minutes_of(text) == minutes


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("", "", ""),
        ("5.00", "99.00", ""),  # prices are the trip's
        ("T1 | 08:00", "T9 | 08:00", "step 1: there is no train 'T9' on day 1"),
        ("T1 | 08:00", "T1 | 08:05", "step 1: T1 leaves at 08:00"),
        ("old tower | 10:30", "old tower | 10:29", "step 2: it is 10:30 at the earliest"),
        ("old tower | 10:30", "old tower | 11:01", "step 2: Old Tower is closed"),
        ("old tower | 10:30", "old tower | soon", "step 2: it is 10:30 at the earliest"),
        ("1 | hotel | Hotel A", "1 | hotel | Hotel B", "step 3: the plan is in Ulm"),
        ("1 | hotel | Hotel A | night | 40.00; ", "", "step 3: the plan is at day 1"),
        ("Zoo | 09:00", "Zoo | 08:59", "step 4: Zoo is closed"),
        ("2 | visit | Zoo | 09:00 | 3.00; ", "", "Zoo is not visited"),
        ("T2 | 16:40", "T3 | 08:20", "step 5: it is 11:00 at the earliest"),
        ("; 2 | train | T2 | 16:40 | 10.00", "", "the plan ends in Ulm on day 2"),
        ("1 | visit | old", "2 | visit | old", "step 2: the plan is at day 1"),
        ("2 | visit | Zoo | 09:00", "1 | visit | Zoo | 09:00", "at day 1, which is over"),
        ("2 | visit | Zoo | 09:00 | 3.00; 2", "2 | visit | Zoo | 09:00 | 3.00; 2 | visit | Zoo | "
         "11:00 | 3.00; 2", "step 5: Zoo is closed"),
    ],
)  # fmt: skip
def test_what_is_not_feasible(old: str, new: str, said: str) -> None:
    assert old in PLAN
    steps = read_plan(PLAN.replace(old, new, 1))
    assert isinstance(steps, list)
    assert said in fault(TRIP, steps)
    assert bool(said) == bool(fault(TRIP, steps))


def test_the_budget_counts_all() -> None:
    steps = read_plan(PLAN)
    assert isinstance(steps, list)
    assert fault({**TRIP, "budget": 6800}, steps) == ""
    assert fault({**TRIP, "budget": 6799}, steps) == "it costs 68.00"
    assert cheapest(TRIP) == (6800, read_plan(PLAN.replace("old tower", "Old Tower")))
    assert cheapest({**TRIP, "wanted": ["Nothing"]}) is None


def least(trip: Any, steps: list[Step], open_: list[Any]) -> int | None:
    """The least cost of a feasible plan, by trying every order of every move, the rules' judge
    deciding what is one."""
    free = {**trip, "budget": 10**9, "wanted": [], "days": steps[-1].day if steps else 1}
    if steps and fault({**free, "home": trip["home"]}, steps).startswith("step"):
        return None
    costs = []
    if steps and not fault({**trip, "budget": 10**9}, steps):
        costs.append(sum(int(s.price.replace(".", "")) for s in steps))
    for i, move in enumerate(open_):
        if not steps or move.day >= steps[-1].day:
            found = least(trip, [*steps, move], open_[:i] + open_[i + 1 :])
            costs += [] if found is None else [found]
    return min(costs, default=None)


def test_the_cheapest_plan_is_the_least_of_all() -> None:
    found = [by_every_order(seed) for seed in range(6)]
    assert sum(cost is not None for cost in found) > 2


def by_every_order(seed: int) -> int | None:
    rng = stream(seed, "trips")
    towns, names = ["Oru", "Ulm", "Bad", "Aue"], list("abcdefghi")
    trip = _trip(rng, towns, names, 2)
    trip["wanted"] = trip["wanted"][:1]
    trip["trains"] = [t for t in trip["trains"] if "Aue" not in (t["start"], t["end"])][::2]
    trip["hotels"] = trip["hotels"][1:]
    (row,) = [p for p in trip["places"] if p["place"] in trip["wanted"]]
    hotels = [Step(1, "hotel", r["hotel"], "night", f"{r['price'] / 100:.2f}")
              for r in trip["hotels"]]  # fmt: skip
    rides = [Step(r["day"], "train", r["train"], f"{r['leaves'] // 60:02d}:{r['leaves'] % 60:02d}",
                  f"{r['price'] / 100:.2f}") for r in trip["trains"]]  # fmt: skip
    times = {max(row["opens"], t) for t in [480, *(r["arrives"] + 30 for r in trip["trains"])]}
    visits = [Step(d, "visit", row["place"], f"{t // 60:02d}:{t % 60:02d}",
                   f"{row['price'] / 100:.2f}") for d in (1, 2) for t in times]  # fmt: skip
    found, cost = cheapest(trip), least(trip, [], [*hotels, *rides, *visits])
    assert (found and found[0]) == cost
    return cost


@pytest.fixture(scope="module")
def env() -> SearchEnv:
    return gym.make(
        "searchgym/TravelQA-v0", world={"entities": 1200}, tasks={"travel": 40}
    ).unwrapped  # type: ignore[return-value]


def begun(env: SearchEnv, number: int) -> list[str]:
    env.reset(seed=0, options={"task_id": env.tasks[number].id})
    return env.oracle()


def paid(env: SearchEnv, texts: list[str]) -> float:
    return float([env.step(text)[1] for text in texts][-1])


def test_infeasible_is_0_and_details_are_a_share(env: SearchEnv) -> None:
    for number in range(6):
        plan = read_plan(env.tasks[number].answers[0])
        calls = begun(env, number)[:-1]
        assert isinstance(plan, list)
        n = len(plan)
        assert paid(env, [*calls, SAY(Answer(written(plan)))]) == 1
        for place, step in enumerate(plan):
            wrong = [*plan[:place], step._replace(price="0.01"), *plan[place + 1 :]]
            begun(env, number)
            assert paid(env, [*calls, SAY(Answer(written(wrong)))]) == pytest.approx((n - 1) / n)
            left = [*plan[:place], *plan[place + 1 :]]
            begun(env, number)  # all its details were shown
            assert paid(env, [*calls, SAY(Answer(written(left)))]) == 0
        begun(env, number)
        assert paid(env, [SAY(Answer(written(plan)))]) == 0, "nothing was looked up"
        begun(env, number)
        assert paid(env, [*calls, "no action"]) == 0


def test_details_of_steps() -> None:
    rows = [*TRIP["trains"], *TRIP["hotels"], *TRIP["places"]]
    steps = read_plan(PLAN)
    assert isinstance(steps, list)
    assert details(steps, rows) == 1
    assert details(steps, rows[1:]) == pytest.approx(4 / 5)
    assert details(steps, []) == 0
    for change in ({"price": "9.99"}, {"name": "T9"}, {"day": 2}, {"at": "08:01"}):
        assert details([steps[0]._replace(**change)], rows) == 0
    assert details([steps[1]._replace(at="12:00")], rows) == 0, "after it closes"


def test_trips_are_feasible_and_bind(env: SearchEnv) -> None:
    for number, task in enumerate(env.tasks):
        trip = task.meta["travel"]
        cost, plan = cheapest(trip)
        assert cost <= trip["budget"] <= cost * (1 + SLACK)
        assert fault(trip, plan) == ""
        assert written(plan) == task.answers[0]
        assert fault(trip, first_of_all(trip)) != "", "the first of everything does not do"
        texts = begun(env, number)
        for place, text in enumerate(texts):
            if place == number % len(texts):
                twin, kept = env.fork(), json.loads(json.dumps(env.episode.snapshot()))
                twin.step(SAY(Call("trains", {"start": trip["home"]})))
                assert Episode.restore(kept).observation() == env.episode.observation()
            reward = env.step(text)[1]
        assert reward == 1
        assert trip["city"] not in task.question


def test_hostile_calls_and_plans_never_raise(env: SearchEnv) -> None:
    rng = stream(0, "hostile")
    trip = env.tasks[0].meta["travel"]
    words = ["", "the", "\x00\ud800", "|", ";", "1", "train", "night", "08:00", "٣", "-1",
             "9" * 400, trip["home"], trip["city"], trip["wanted"][0], "<answer>"]  # fmt: skip

    def pick(options: list[Any]) -> Any:
        return options[int(rng.integers(len(options)))]

    for count in range(10_000):
        if count % 12 == 0:
            begun(env, count // 12 % len(env.tasks))
        if count % 12 == 11:
            parts = [" | ".join(pick(words) for _ in range(5)) for _ in range(int(rng.integers(9)))]
            steps = read_plan(text := "; ".join(parts))
            assert isinstance(steps, str) or isinstance(fault(trip, steps), str)
            assert env.step(SAY(Answer(text or "x")))[1] == 0
        else:
            args = {pick(["start", "end", "city", "name", "x"]): pick([*words, 3, None, []])
                    for _ in range(3)}  # fmt: skip
            call = {"name": pick(["trains", "hotels", "place", "search", ""]), "arguments": args}
            env.step(f"<tool>{json.dumps(call)}</tool>")


@given(st.text(alphabet="1|; train:08vist", max_size=300))
def test_any_text_is_a_plan_or_why_not(text: str) -> None:
    steps = read_plan(text)
    assert isinstance(steps, str) or isinstance(fault(TRIP, steps), str)


def test_a_tool_without_a_trip_says_what_to_ask() -> None:
    other = SearchEnv(corpus="encyclopedia", world={"entities": 300}, tasks={"simple": 4},
                      dialect="search_r1+tools", tools=["search", "hotels"])  # fmt: skip
    other.reset(seed=1)
    with pytest.raises(TaskError, match="ask tasks="):
        other.step(SAY(Call("hotels", {"city": "x"})))
