from pathlib import Path

import pytest

from searchgym.cards import card
from searchgym.errors import CardError
from searchgym.evaluation.run import evaluate
from searchgym.transfer.quickstart import ladder, quickstart
from searchgym.transfer.training import Recipe, Trainer

TINY = Recipe(
    env={
        "corpus": "encyclopedia", "world": {"entities": 900}, "max_turns": 3,
        "tasks": {"simple": 60, "comparison": 20},
    },
    worlds=(0,),
    dev={"seed": 1, "tasks": {"simple": 20, "comparison": 10}},
    encoder={"none": True},
    config={"episodes": 1_500, "questions": 12, "evaluate_every": 5, "width": 16},
)  # fmt: skip


def test_the_card_is_a_recipe() -> None:
    recipe = Recipe.of_card("candidate")
    assert recipe.env["corpus"] == "encyclopedia"
    assert recipe.digest == Recipe.of_card(card("agents", "candidate")).digest
    # the model is selected in another world than the one that is reported
    assert recipe.dev["seed"] not in recipe.worlds[:1]


def test_cards_that_do_not_learn_or_have_a_typo(tmp_path: Path) -> None:
    with pytest.raises(CardError, match="does not learn"):
        Recipe.of_card("random")
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "card.toml").write_text(
        'id = "mine"\nsummary = "s"\nuse = "a:b"\n[train]\nenvironment = 1\n'
    )
    with pytest.raises(CardError, match="unknown key 'environment'"):
        Recipe.of_card(card("agents", str(folder)))


def test_without_real_sets_there_is_a_smoke_run(tmp_path: Path) -> None:
    rungs, absent = ladder(TINY, tmp_path, 10, 10)
    assert [rung.kind for rung in rungs] == ["generated"] * 3 + ["smoke"]
    assert rungs[-1].keywords["max_turns"] == 3
    assert any("hotpotqa" in line for line in absent)


def test_main_job_end_to_end(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    again = {"data_dir": tmp_path / "none", "generated_questions": 12, "real_questions": 12}
    done = quickstart(out, seeds=(0, 1), recipe=TINY, budget_s=600, **again)  # type: ignore[arg-type]
    assert done.complete
    assert done.table.rungs == (
        "source world", "held-out world", "held-out wording", "python docs",
    )  # fmt: skip
    assert len(done.table.results["source world", "trained"]) == 2
    assert done.table.cell("held-out world", "oracle", "em").mean == 1.0  # type: ignore[union-attr]
    assert [len(run.curve) >= 2 for run in done.learned] == [True, True]
    assert done.learned[0].episodes >= 1_500
    for path in done.written.values():
        assert path.stat().st_size > 0
    printed = capsys.readouterr().out
    assert "searchgym data" in printed
    assert "at most 12" in printed
    # the same call goes on from what is there: nothing is trained again, the numbers are the same
    once_more = quickstart(out, seeds=(0, 1), recipe=TINY, budget_s=600, **again)  # type: ignore[arg-type]
    assert [run.seconds for run in once_more.learned] == [run.seconds for run in done.learned]
    assert once_more.table.rows() == done.table.rows()


def test_training_is_reproducible_and_seeds_differ(tmp_path: Path) -> None:
    prints = [
        Trainer(TINY, tmp_path / name).train(seed).agent.fingerprint
        for name, seed in (("a", 3), ("b", 3), ("b", 4))
    ]
    assert prints[0] == prints[1] != prints[2]


def test_the_untrained_self_is_where_the_curve_begins(tmp_path: Path) -> None:
    trainer = Trainer(TINY, tmp_path)
    learned = trainer.train(0)
    before = trainer.untrained(learned)
    assert before.fingerprint != learned.agent.fingerprint
    dev = TINY.settings()[1]
    means = evaluate(before, dev).means
    first = learned.curve[0]
    assert first["episodes"] == 0
    assert (means["f1"].mean, means["searches"].mean) == pytest.approx(
        (first["f1"], first["searches"])
    )
    after = evaluate(learned.agent, dev).means["f1"].mean
    assert after == pytest.approx(max(point["f1"] for point in learned.curve))


def test_an_interrupted_run_goes_on(tmp_path: Path) -> None:
    def stop(what: str, fraction: float, point: object) -> None:
        if fraction > 0.5:
            raise KeyboardInterrupt

    whole = Trainer(TINY, tmp_path / "whole").train(0)
    trainer = Trainer(TINY, tmp_path / "cut")
    with pytest.raises(KeyboardInterrupt):
        trainer.train(0, report=stop)
    assert (tmp_path / "cut/agents/seed-0.checkpoint.safetensors").is_file()
    resumed = Trainer(TINY, tmp_path / "cut").train(0)
    assert resumed.agent.fingerprint == whole.agent.fingerprint
    assert [p["f1"] for p in resumed.curve] == [p["f1"] for p in whole.curve]
    assert list((tmp_path / "cut/agents").iterdir()) == [resumed.path]
