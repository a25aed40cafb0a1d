"""A distribution of others adds items of every kind without touching a file of ours."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from searchgym import plugins
from searchgym.errors import CardError
from searchgym.plugins import Plugin, PluginWarning, Registry

MODULE = '''
"""Items of a distribution that SearchGym has never heard of."""
from pathlib import Path

from searchgym.plugins import Plugin

HERE = Path(__file__).resolve().parent
PLUGIN = Plugin(
    items={
        "engine": {"alphabetical": "stranger:alphabetical"},
        "tool": {"shout": "stranger:shout"},
        "reward": {"short": "stranger:short"},
        "task family": {"echo": "stranger:echo"},
        "command": {"hello": "stranger:hello"},
    },
    packages=("stranger.methods",),
    folders={"agents": HERE / "agents", "recipes": HERE / "methods"},
)


class Alphabetical:
    needs_task = False
    fingerprint = "alphabetical"

    def __init__(self, corpus):
        self.corpus = corpus

    def cache_key(self, request):
        return None

    def run(self, batch):
        from searchgym.types import Hits
        best = sorted(range(len(self.corpus)), key=lambda i: self.corpus.passages[i].title)
        return [Hits(tuple(best[:q.k]), tuple(map(float, range(q.k, 0, -1)))) for q in batch]


def alphabetical(corpus, world=None):
    return Alphabetical(corpus)


alphabetical.open_options = frozenset({"world"})


def shout(text: str) -> str:
    """Return a text in capital letters."""
    return text.upper()


def short(outcome) -> float:
    """Pay for a short answer."""
    return float(len(outcome.answer or "") < 20)


def echo(context, rng, turn):
    from searchgym.tasks.chains import simple
    return simple(context, rng, turn)


def hello(name: str = "you") -> None:
    """Greet somebody."""
    print(f"hello {name}")
'''
METHOD = '''
"""An advantage that is the return itself."""
from searchgym.plugins import register
from searchgym.tasks.chains import simple
from searchgym.tasks.draft import family, operation
from searchgym.rl.advantages.group_relative import GRPO


class Plain(GRPO):
    """The return, less its group's mean."""
    registered = "advantage:plain_return"


@register("tool:whisper")
def whisper(text: str) -> str:
    """Return a text in small letters."""
    return text.lower()


@operation("loud")
def loud(rows, text):
    return {text(0, row[0]).upper() for row in rows}


@register("task family:loudly")
@family(same_answer=0.5)
def loudly(context, rng, turn):
    return simple.propose(context, rng, turn)


@register("command:bye")
def bye() -> None:
    """Take leave."""
    print("bye")
'''
RECIPE = """advantage = "plain_return"
loss = "reinforce"

[doc]
summary = "A stranger's"
source = "nobody"
formula = "R"
systems = ["Plain returns"]
missing = "its paper"
"""
CARD = """id = "searchgym/second-hit"
summary = "Answers with the first title, too"
use = "searchgym.agents:FirstHit"
"""


@pytest.fixture(scope="module")
def stranger(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for ``sys.path`` that holds an installed distribution."""
    site = tmp_path_factory.mktemp("site")
    package = site / "stranger"
    (package / "methods").mkdir(parents=True)
    (package / "__init__.py").write_text(MODULE)
    (package / "methods" / "__init__.py").write_text('"""Methods."""\n')
    (package / "methods" / "plain.py").write_text(METHOD)
    (package / "methods" / "plain_return.toml").write_text(RECIPE)
    card = package / "agents" / "second-hit"
    card.mkdir(parents=True)
    (card / "card.toml").write_text(CARD)
    (card / "README.md").write_text("# second-hit\n")
    about = site / "stranger-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: stranger\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[searchgym.plugins]\nstranger = stranger:PLUGIN\n")
    return site


def run(site: Path, code: str) -> str:
    """Run Python where the distribution is installed; returns what it prints."""
    path = os.pathsep.join([str(site), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=300,
        env={**os.environ, "PYTHONPATH": path},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_items_of_every_kind_are_found_by_name(stranger: Path) -> None:
    told = run(stranger, """
import json
import gymnasium as gym, searchgym as sg
env = gym.make("searchgym/SearchQA-v0", engine="alphabetical", tools=["search", "shout", "whisper"],
               reward={"f1": 1, "short": 0.5}, tasks={"echo": 5})
env.reset(seed=0)
_, reward, *_ = env.step("<answer>none</answer>")
from searchgym.cards import card
from searchgym.rl.recipe import Recipe
from searchgym.rl.slots.protocols import make
print(json.dumps([reward, len(env.unwrapped.tasks), card("agents", "second-hit").id,
                  type(make("advantage", "plain_return")).__name__,
                  Recipe.of("plain_return").table["advantage"]]))
""")  # fmt: skip
    assert json.loads(told) == [0.5, 5, "searchgym/second-hit", "Plain", "plain_return"]


def test_what_a_method_and_an_engine_say_of_themselves_holds(stranger: Path) -> None:
    """Systems, operations of graphs in a process that has built no such task, open options."""
    told = run(stranger, """
import json
from dataclasses import replace
import searchgym as sg
from searchgym.engines.registry import check_open
from searchgym.errors import CardError
from searchgym.rl import implemented
from searchgym.tasks.solver import Solver
from searchgym.utils.trust import registered_only
env = sg.SearchEnv(world={"entities": 300}, tasks={"simple": 1})
graph, refused = env.tasks[0].graph, []
loud = Solver(env.world).solve(replace(graph, operation=f"loud:{graph.answer}"))
with registered_only("a file"):
    check_open({"name": "alphabetical", "world": None})
    for spec in ({"name": "alphabetical", "path": "/"}, "dense"):
        try:
            check_open(spec)
        except CardError as error:
            refused.append(str(error))
print(json.dumps([implemented()["Plain returns"], loud, env.tasks[0].answers[0], refused]))
""")  # fmt: skip
    system, loud, answer, refused = json.loads(told)
    assert system == ["part", "its paper", ["recipe plain_return"]]
    assert loud == [answer.upper()]
    assert "names the option 'path' of the engine 'alphabetical'" in refused[0]
    assert "names the engine 'dense'" in refused[1]


def test_the_command_line_has_them(stranger: Path) -> None:
    wanted = {
        "hello --name Ada": "hello Ada",
        "bye": "bye",
        "--help": "hello",
        "list agents": "second-hit",
        "list recipes": "plain_return",
    }
    code = f"""
import contextlib, io, json
from searchgym.cli.main import run
told = {{}}
for line in {[*wanted]!r}:
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.suppress(SystemExit):
        run(line.split())
    told[line] = out.getvalue()
print(json.dumps(told))
"""
    told = json.loads(run(stranger, code))
    assert {line: text for line, text in wanted.items() if text not in told[line]} == {}


class Point:
    """An entry point as ``importlib.metadata`` makes them."""

    def __init__(self, name: str, found: object) -> None:
        self.name, self.value, self._found = name, f"{name}.plugin:PLUGIN", found

    def load(self) -> object:
        if isinstance(self._found, Exception):
            raise self._found
        return self._found


@pytest.fixture
def points(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Point]]:
    found: list[Point] = []
    monkeypatch.setattr(plugins, "entry_points", lambda group: found)

    def forget() -> None:
        plugins.plugins.cache_clear()
        plugins.added.cache_clear()

    forget()
    yield found
    forget()


def test_what_is_no_plugin_is_named(points: list[Point]) -> None:
    points.append(Point("mine", {"engine": {}}))
    with pytest.warns(PluginWarning, match=r"'mine' \(mine.plugin:PLUGIN\) is left .* got \{'eng"):
        assert not plugins.plugins()


def test_a_plugin_that_cannot_be_loaded_is_named(points: list[Point]) -> None:
    points.append(Point("mine", ImportError("no module named yours")))
    points.append(Point("yours", Plugin(items={"engine": {"fine": "yours:engine"}})))
    with pytest.warns(PluginWarning, match=r"'mine' .* is left out: ImportError: no module named"):
        assert list(Registry("engine")) == ["fine"]


def test_names_that_are_taken_are_refused(points: list[Point]) -> None:
    points.append(Point("mine", Plugin(items={"engine": {"bm25": "mine:engine"}})))
    registry = Registry("engine", {"bm25": "ours:engine"})
    assert registry["bm25"] == "ours:engine"  # what is shipped needs no plug-in
    with pytest.raises(CardError, match=r"'bm25' \(mine:engine\) has a name that is taken by ours"):
        list(registry)
    points.append(Point("theirs", Plugin(items={"engine": {"bm25": "theirs:engine"}})))
    plugins.plugins.cache_clear()
    plugins.added.cache_clear()
    with pytest.raises(CardError, match=r"'theirs' adds the engine 'bm25' .* mine:engine is alr"):
        plugins.added("engine")


def test_an_unknown_kind_is_refused_with_the_nearest() -> None:
    with pytest.raises(CardError, match=r"unknown kind 'engines'. Did you mean 'engine'"):
        Plugin(items={"engines": {}})
    with pytest.raises(CardError, match=r"unknown kind 'recipe'. Did you mean 'recipes'"):
        Plugin(folders={"recipe": Path()})
