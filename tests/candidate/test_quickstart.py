import warnings
from collections.abc import Callable
from contextlib import redirect_stdout
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from searchgym.cards import card
from searchgym.errors import CardError
from searchgym.evaluation import evaluate
from searchgym_agents.candidate.quickstart import (
    PROCESSES,
    Quickstart,
    ladder,
    quick_recipe,
    quickstart,
)
from searchgym_agents.candidate.training import CandidateRecipe, Learned, SeedTrainer

pytestmark = pytest.mark.contract

TINY = CandidateRecipe(
    env={
        "corpus": "encyclopedia", "world": {"entities": 500}, "max_turns": 3,
        "tasks": {"simple": 60, "comparison": 20},
    },
    worlds=(0,),
    dev={"seed": 1, "tasks": {"simple": 20, "comparison": 10}},
    encoder={"none": True},
    config={"episodes": 720, "questions": 12, "evaluate_every": 5, "width": 16},
)  # fmt: skip
SMALL = replace(
    TINY,
    env={**TINY.env, "world": {"entities": 200}, "tasks": {"simple": 20}},
    dev={"seed": 1, "tasks": {"simple": 10}},
    config={**TINY.config, "episodes": 240},
)
"""A second or two of training."""


def stop(what: str, fraction: float, point: object) -> None:
    """Interrupts a training half way."""
    if fraction > 0.5:
        raise KeyboardInterrupt


def test_the_card_is_a_recipe() -> None:
    recipe = CandidateRecipe.of_card("candidate")
    assert recipe.env["corpus"] == "encyclopedia"
    assert recipe.digest == CandidateRecipe.of_card(card("agents", "candidate")).digest
    # the model is selected in another world than the one that is reported
    assert recipe.dev["seed"] not in recipe.worlds[:1]


def test_cards_that_do_not_learn_or_have_a_typo(tmp_path: Path) -> None:
    with pytest.raises(CardError, match="does not learn"):
        CandidateRecipe.of_card("random")
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "card.toml").write_text(
        'id = "mine"\nsummary = "s"\nuse = "a:b"\n[train]\nenvironment = 1\n'
    )
    with pytest.raises(CardError, match="unknown key 'environment'"):
        CandidateRecipe.of_card(card("agents", str(folder)))


def test_without_texts_and_real_sets_there_are_the_worlds(tmp_path: Path) -> None:
    rungs, absent = ladder(TINY, tmp_path, 10, 10)
    assert [rung.kind for rung in rungs] == ["generated"] * 3
    assert rungs[-1].keywords["max_turns"] == 3
    assert any("data get vital" in line for line in absent)
    assert any("hotpotqa" in line for line in absent)


class Job(NamedTuple):
    """The main job in its folder, which can be done again, and what it printed."""

    out: Path
    do: Callable[[], Quickstart]
    done: Quickstart
    printed: str


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Job:
    root = tmp_path_factory.mktemp("job")
    again: dict[str, Any] = {
        "data_dir": root / "none", "generated_questions": 12, "real_questions": 12,
    }  # fmt: skip

    def do(processes: int = 1) -> Quickstart:
        return quickstart(root / "out", seeds=(0, 1), recipe=TINY, processes=processes, **again)

    with redirect_stdout(StringIO()) as printed:
        done = do(PROCESSES)
    return Job(root / "out", do, done, printed.getvalue())


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Learned:
    """Seed 0 of the small recipe, never interrupted."""
    return SeedTrainer(SMALL, tmp_path_factory.mktemp("whole")).train(0)


def test_main_job_end_to_end(job: Job) -> None:
    out, do, done, printed = job
    assert done.complete
    assert done.table.rungs == ("source world", "held-out world", "held-out wording")
    assert len(done.table.results["source world", "trained"]) == 2
    assert done.table.cell("held-out world", "oracle", "em").mean == 1.0  # type: ignore[union-attr]
    assert [len(run.curve) >= 2 for run in done.learned] == [True, True]
    assert done.learned[0].episodes >= TINY.config["episodes"]
    for path in done.written.values():
        assert path.stat().st_size > 0
    assert "searchgym data" in printed
    assert not done.failure
    lines = [line.rstrip() for line in printed.splitlines()]
    assert lines[-1] == f"report: {out / 'report.html'}"
    assert max(map(len, lines[lines.index("F1: mean [95 % interval]") :][:-1])) <= 80
    assert "…" not in printed
    # the same call goes on from what is there: nothing is trained again, the numbers are the same
    once_more = do()
    assert [run.seconds for run in once_more.learned] == [run.seconds for run in done.learned]
    assert once_more.table.rows() == done.table.rows()


def test_training_is_reproducible_and_seeds_differ(tmp_path: Path) -> None:
    prints = [
        SeedTrainer(SMALL, tmp_path / name).train(seed).agent.fingerprint
        for name, seed in (("a", 3), ("b", 3), ("b", 4))
    ]
    assert prints[0] == prints[1] != prints[2]


def test_the_untrained_self_is_where_the_curve_begins(job: Job) -> None:
    trainer = SeedTrainer(TINY, job.out)
    learned = job.done.learned[0]
    before = trainer.untrained(learned)
    assert before.fingerprint != learned.agent.fingerprint
    dev = TINY.settings()[1][0].env
    means = evaluate(before, dev).means
    first = learned.curve[0]
    assert first["episodes"] == 0
    assert (means["f1"].mean, means["searches"].mean) == pytest.approx(
        (first["f1"], first["searches"])
    )
    after = evaluate(learned.agent, dev).means["f1"].mean
    assert after == pytest.approx(max(point["f1"] for point in learned.curve))


def test_an_interrupted_run_goes_on(whole: Learned, tmp_path: Path) -> None:
    trainer = SeedTrainer(SMALL, tmp_path / "cut")
    with pytest.raises(KeyboardInterrupt):
        trainer.train(0, report=stop)
    assert (tmp_path / "cut/agents/seed-0.checkpoint.safetensors").is_file()
    resumed = SeedTrainer(SMALL, tmp_path / "cut").train(0)
    assert resumed.agent.fingerprint == whole.agent.fingerprint
    assert [p["f1"] for p in resumed.curve] == [p["f1"] for p in whole.curve]
    left = [p for p in (tmp_path / "cut/agents").iterdir() if p.suffix != ".lock"]
    assert left == [resumed.path]


def test_a_checkpoint_of_another_recipe_is_not_gone_on_with(whole: Learned, tmp_path: Path) -> None:
    """Same hyperparameters, another world: what was begun there must not end up here."""
    other = replace(SMALL, env={**SMALL.env, "k": 1})
    with pytest.raises(KeyboardInterrupt):
        SeedTrainer(other, tmp_path / "cut").train(0, report=stop)
    with pytest.warns(UserWarning, match=r"seed 0 is trained from the start.*\(about\)"):
        after = SeedTrainer(SMALL, tmp_path / "cut").train(0)
    assert after.agent.fingerprint == whole.agent.fingerprint
    assert [p["f1"] for p in after.curve] == [p["f1"] for p in whole.curve]


def test_another_bound_says_that_it_begins_anew(tmp_path: Path) -> None:
    trainer = SeedTrainer(SMALL, tmp_path)
    with pytest.raises(KeyboardInterrupt):
        trainer.train(0, report=stop)
    begun = tmp_path / "agents/seed-0.checkpoint.safetensors"
    assert begun.is_file()
    with pytest.warns(UserWarning, match=rf"deleted: {begun}: .*other settings \(seconds\)"):
        trainer.train(0, seconds=600)
    assert not begun.exists()
    with warnings.catch_warnings():  # a finished agent is loaded, and nothing is lost
        warnings.simplefilter("error")
        trainer.train(0, seconds=600)


def test_an_agent_that_learnt_nothing_says_so(tmp_path: Path) -> None:
    few = {"data_dir": tmp_path / "none", "generated_questions": 2, "real_questions": 2}
    idle = replace(SMALL, config={**SMALL.config, "episodes": 12, "lr": 0.0})
    done = quickstart(tmp_path, recipe=idle, **few)  # type: ignore[arg-type]
    assert done.failure.startswith("seed 0 learnt nothing: F1 on the development world was 0.")
    assert "after 12 episodes" in done.failure


@pytest.mark.parametrize(
    ("table", "changes", "said"),
    [
        ("config", {"episode": 100}, r"\[train.config\] 'episode'\. Did you mean 'episodes'"),
        ("config", {"batch": 2}, r"\[train.config\] 'batch'\. Known: average"),
        ("config", {"episodes": "abc"}, "'episodes' of .* is a whole number, got 'abc'"),
        ("config", {"episodes": float("nan")}, "'episodes' of .* is a whole number, got nan"),
        ("config", {"episodes": 0}, "episodes must be a whole number of at least 1, got 0"),
        ("config", {"questions": 0}, "questions must be a whole number of at least 1, got 0"),
        ("config", {"questions": 2.5}, "'questions' of .* is a whole number, got 2.5"),
        ("config", {"lr": "abc"}, "'lr' of .* is a number, got 'abc'"),
        ("config", {"lr": float("nan")}, "'lr' of .* is a number, got nan"),
        ("config", {"lr": float("inf")}, "lr must be a finite number of at least 0, got inf"),
        ("config", {"dropout": 2}, "dropout must be .* of at least 0 and at most 1, got 2"),
        ("config", {"branches": 3}, "branches is a list of whole numbers"),
        ("config", {"branches": ["x"]}, "a number of branches must be a whole number"),
        ("config", {"seed": 3}, "has no seed, which --seed fixes"),
        ("encoder", {"x": 1}, r"\[train.encoder\] 'x'\. Known: batch_pieces"),
        ("encoder", {"layers": "two"}, "'layers' of .* is a whole number or none, got 'two'"),
        ("encoder", {"none": "yes"}, "none"),
        ("dev", {"seed": "x"}, "dev.seed must be a whole number of at least 0, got 'x'"),
        ("dev", {"max_turn": 2}, "Did you mean 'max_turns'"),
        ("env", {"corpus": "encyclopedia", "max_turn": 2}, "Did you mean 'max_turns'"),
        ("worlds", ("x",), "a seed of worlds must be a whole number"),
    ],
)
def test_a_wrong_option_is_refused_before_a_world_is_made(
    tmp_path: Path, table: str, changes: Any, said: str
) -> None:
    with pytest.raises(CardError, match=said):
        SeedTrainer(replace(SMALL, **{table: changes}), tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_flat_curve_ends_the_training(tmp_path: Path) -> None:
    """At the same episode in every run: by work, not by the clock."""
    flat = {**SMALL.config, "episodes": 600, "lr": 0.0, "patience": 2, "evidence_until": 0.5}
    recipe = replace(SMALL, config=flat)
    ends = [SeedTrainer(recipe, tmp_path / name).train(0).episodes for name in ("a", "b")]
    assert ends == [300, 300]  # half is shaping, and no evaluation was better than the first
    trainer = SeedTrainer(recipe, tmp_path / "a")
    assert trainer.finished(0) is not None, "it is not trained again"


def test_the_quick_recipe_is_the_cards_with_less_of_it() -> None:
    whole, quick = CandidateRecipe.of_card(), quick_recipe(3, 500)
    assert quick.worlds == whole.worlds[:3]
    assert (quick.config["episodes"], quick.config["patience"]) == (500, 5)
    assert (quick.env, quick.dev, quick.encoder) == (whole.env, whole.dev, whole.encoder)
    beside = quick_recipe(3, 500, text=True)
    assert beside.world() == quick.world()
    assert beside.config == quick.config
    world, text = beside.env
    assert (world["worlds"], text["corpus"]) == ([0, 1, 2], "vital")
    assert world["weight"] == 2 * text["weight"]
    assert world["dev"] == {"world": {"seed": 1}, "tasks": whole.dev["tasks"]}


def test_more_time_trains_again(tmp_path: Path) -> None:
    recipe = replace(TINY, config={**TINY.config, "episodes": 1_000_000, "evaluate_every": 50})
    trainer = SeedTrainer(recipe, tmp_path)
    short = trainer.train(0, seconds=0.5)
    assert short.episodes < 1_000_000
    assert trainer.train(0, seconds=0.5).seconds == short.seconds, "loaded"
    assert trainer.train(0, seconds=0.2).seconds == short.seconds, "loaded"
    assert trainer.finished(0) is None, "it would have gone on"
    longer = trainer.train(0, seconds=1.0)
    assert longer.seconds >= 1.0
    assert longer.episodes > short.episodes
