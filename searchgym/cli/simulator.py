"""``searchgym simulator``: data, training and figures of a language model that plays the engine."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..errors import CardError
from ..plugins import register
from .live import SupervisedTraining
from .options import DataDir, Least1, Maybe1, Overrides, fills, overrides
from .output import (
    JsonFlag,
    print_facts,
    print_json,
    print_table,
    progress,
    say,
    with_examples,
    working,
)
from .targets import corpus_card, env_id

if TYPE_CHECKING:
    from ..envs.search import SearchEnv
    from ..types import Task

Name = Annotated[
    str, typer.Argument(metavar="SOURCE", help="A corpus or an environment, with its questions.")
]
Split = Annotated[str | None, typer.Option(help="Split of the questions (default: its own).")]
Tasks = Annotated[int, typer.Option(min=1, help="Simple questions per generated world.")]
SHARES = {
    "simple": 1.0, "chain": 1.0, "intersection": 0.5, "superlative": 0.25, "comparison": 0.25,
    "unanswerable": 0.125,
}  # fmt: skip
"""Families of a generated world's questions, relative to ``--tasks``."""
LINE_EVERY = 10
"""Steps of a training per line where no terminal shows a bar."""


@dataclass(frozen=True)
class PairOptions:
    """Options of ``simulator_pairs``."""

    docs: Least1 = 3
    """Documents per query, at most."""
    words: Annotated[int, typer.Option(min=5)] = 30
    """Words per document, at most."""
    noise: Annotated[float, typer.Option(min=0, max=1)] = 0.5
    """Share of queries with a noisy example, too."""
    questions: bool = True
    """Whole questions as queries, too, not gold queries only."""
    before: Annotated[int | None, typer.Option(min=0)] = None
    """Snippets: the answer after so many words (for small models)."""
    seed: int = 0
    """Seed of the choice of excerpts."""


@dataclass(frozen=True)
class WriterOptions:
    """Options of ``SimulatedEngine``."""

    style: str = "sft"
    """Prompts: sft or prompt."""
    words: Least1 = 30
    """Words per document, about."""
    per_call: Maybe1 = None
    """Documents written at once (default: all)."""
    temperature: Annotated[float, typer.Option(min=0)] = 0.8
    """0: greedy."""
    max_tokens: Least1 = 600
    """Most tokens of a call."""


@register("simulator data")
@with_examples(
    "searchgym simulator data encyclopedia --out runs/simulator.jsonl",
    "searchgym simulator data encyclopedia --worlds 60 -s world.entities=300 --tasks 70 "
    "--docs 1 --words 12 --before 3 --noise 0.25 --no-questions --out runs/small.jsonl",
    "searchgym simulator data HotpotQA --split train --out runs/hotpot.jsonl",
)
@fills("how", PairOptions)
def data(
    name: Name,
    out: Annotated[Path, typer.Option(help="File of JSON lines to write.")],
    how: PairOptions,
    tasks: Tasks = 400,
    worlds: Annotated[int, typer.Option(min=1, help="Generated worlds; more names to copy.")] = 1,
    split: Split = None,
    data_dir: DataDir = None,
    settings: Overrides = None,
    as_json: JsonFlag = False,
) -> None:
    """Write what a simulator is trained on: prompts, and documents to answer them with.

    Each query of each question gives a useful example (excerpts of gold passages that state the
    answer), some also a noisy one (excerpts of other passages BM25 finds; none states it).

    A small model (train --tiny) needs short examples and names that do not come back, so that it
    copies instead of learning by heart: the second command below.
    """
    from ..engines.registry import build_engine
    from ..engines.simulated.data import simulator_pairs
    from ..llms.sft_data import write_pairs
    from ..storage.files import file_digest

    chosen = _keywords(name, split, tasks, data_dir, settings)
    if worlds > 1 and "world" not in chosen and not isinstance(chosen.get("tasks"), Mapping):
        raise CardError(f"--worlds {worlds} needs a generated world, and {name} is none")
    counts = {"useful": 0, "noisy": 0}

    def rows() -> Iterator[dict[str, Any]]:
        for made in _environments(chosen, worlds):
            with progress(f"writing {made.corpus.name}", len(made.tasks), "tasks") as advance:
                counted, engine = _counted(made.tasks, advance), build_engine("bm25", made.corpus)
                for pair in simulator_pairs(counted, made.corpus, engine, **asdict(how)):
                    counts[pair.kind] += 1
                    yield pair._asdict()

    with working(f"reading {name} …"):
        write_pairs(rows(), out)
    digest, size = file_digest(out)[:16], out.stat().st_size
    facts = {"file": str(out), **counts, "digest": digest, "bytes": size}
    print_facts("Simulator data", facts, as_json)


@register("simulator train")
@with_examples(
    "searchgym simulator train --data runs/small.jsonl --out runs/small --tiny",
    "searchgym simulator train --data runs/simulator.jsonl --out runs/qwen "
    "--model Qwen/Qwen2.5-0.5B",
)
def train(
    data: Annotated[Path, typer.Option(help="File made by 'searchgym simulator data'.")],
    out: Annotated[Path, typer.Option(help="Folder of the model; an unfinished run goes on.")],
    tiny: Annotated[
        bool, typer.Option("--tiny", help="Train a small model from nothing; minutes on a CPU.")
    ] = False,
    model: Annotated[
        str | None, typer.Option(help="Fine-tune this model: a folder or hub name.")
    ] = None,
    steps: Annotated[int | None, typer.Option(min=1, help="Default: 600, fine-tuning 500.")] = None,
    batch: Annotated[int | None, typer.Option(min=1, help="Default: 32, fine-tuning 16.")] = None,
    lr: Annotated[float | None, typer.Option(help="AdamW's; default 3e-3, or 1e-5.")] = None,
    seed: Annotated[int, typer.Option(help="Seed of the weights and the order.")] = 0,
    save_every: Annotated[int, typer.Option(min=1, help="Steps between checkpoints.")] = 50,
    as_json: JsonFlag = False,
) -> None:
    """Train a simulator. Ctrl-C or a kill loses little: the same command goes on.

    Use it by engine={"name": "simulated", "generator": {"name": "transformers", "model": "OUT"},
    "words": 12, "per_call": 1, "temperature": 0.3}, with the words and documents per call it was
    trained on; a small model needs a low temperature.
    """
    if tiny == (model is not None):
        raise CardError("say what to train: --tiny (from nothing) or --model NAME, one of them")
    from ..llms.sft_data import encode, pretrained, read_pairs, untrained

    with working("loading …"):
        from ..llms.acceleration import training_dtype
        from ..llms.sft import FINE_TUNING, SftConfig, SftTrainer
        from ..llms.sft import train as run
        from ..storage.files import file_digest

        pairs = read_pairs(data)
        made, tokenizer = (
            pretrained(model) if model is not None else untrained(pairs, out, seed=seed)
        )
        given = {"steps": steps, "batch": batch, "lr": lr, "seed": seed}
        changes: Any = {name: value for name, value in given.items() if value is not None}
        config = replace(SftConfig() if tiny else FINE_TUNING, **changes)
        examples = encode(tokenizer, pairs, config.max_tokens)
        # a small model gains nothing by bfloat16, and comes out alike on every processor without
        precision = {} if tiny else {"dtype": training_dtype(made.device)}
        trainer = SftTrainer(made, examples, config, **precision)
    about = {"data": file_digest(data)[:16], "from": model or "nothing"}
    with progress("training", config.steps, "steps") as bar:
        shown = SupervisedTraining(bar, lines=LINE_EVERY)
        run(trainer, tokenizer, out, about=about, save_every=save_every, report=shown)
    last = shown.last
    facts = {
        "model": str(out),
        "parameters": sum(p.numel() for p in made.parameters()),
        "steps": trainer.step,
        "examples": len(trainer.examples),
        "loss": round(last.loss, 4) if last else None,
        "accuracy": round(last.accuracy, 4) if last else None,
        "seconds": round(trainer.seconds, 1),
    }
    if not last:
        say(f"{out} was trained to its last step already")
    print_facts("Simulator", facts, as_json)


@register("simulator measure")
@with_examples(
    "searchgym simulator measure encyclopedia --model runs/small --words 12 --per-call 1 "
    "--temperature 0.3",
    "searchgym simulator measure HotpotQA --model Qwen/Qwen2.5-3B-Instruct --style prompt "
    "--split public",
)
@fills("how", WriterOptions)
def measure(
    name: Name,
    model: Annotated[str, typer.Option(help="A folder, name of 'searchgym models' or hub name.")],
    how: WriterOptions,
    k: Annotated[int, typer.Option(min=1, help="Documents per query.")] = 3,
    tasks: Tasks = 40,
    split: Split = "test",
    data_dir: DataDir = None,
    settings: Overrides = None,
    as_json: JsonFlag = False,
) -> None:
    """Measure how often the answer stands in useful documents, and how often in noisy ones."""
    from ..engines.simulated import SimulatedEngine
    from ..engines.simulated.data import measure as ask

    with working(f"reading {name} …"):
        made = next(_environments(_keywords(name, split, tasks, data_dir, settings), 1))
        generator = {"name": "transformers", "model": model}
        engine: Any = SimulatedEngine(generator, corpus=made.corpus, **asdict(how))
    with working("generating …"):
        stated = ask(engine, made.tasks, k=k)
    rows = [
        m._asdict() | {"per document": m.per_document, "per result": m.per_result} for m in stated
    ]
    print_json(rows) if as_json else print_table("Documents that state the answer", rows)


def _keywords(
    name: str, split: str | None, tasks: int, data_dir: Path | None, settings: list[str] | None
) -> dict[str, Any]:
    """Return the keywords that an environment over this source would be made with."""
    import gymnasium as gym

    words: dict[str, Any] = {}
    try:
        card = corpus_card(name)
    except CardError as absent:
        try:
            words.update(gym.spec(env_id(name)).kwargs)
        except CardError:
            raise CardError(f"{absent}; no environment has this name either") from None
        words = {k: v for k, v in words.items() if k not in ("render_mode", "curriculum")}
    else:
        words["corpus"] = name
        if card is not None and card.body["kind"] == "world":
            words["tasks"] = {f: max(1, int(share * tasks)) for f, share in SHARES.items()}
    if split is not None:
        words["split"] = split
    if data_dir is not None:
        words["data_dir"] = str(data_dir)
    return words | overrides(settings)


def _environments(words: Mapping[str, Any], worlds: int) -> Iterator[SearchEnv]:
    """One environment per world: seeds follow each other."""
    from ..envs.search import SearchEnv

    world = dict(words.get("world") or {})
    for i in range(worlds):
        if i:
            words = {**words, "world": {**world, "seed": int(world.get("seed", 0)) + i}}
        yield SearchEnv(**{**words, "engine": "bm25"})


def _counted(tasks: Iterable[Task], advance: Callable[[int], None]) -> Iterator[Task]:
    """The tasks, each of which counts once the next one is wanted."""
    for task in tasks:
        yield task
        advance(1)
