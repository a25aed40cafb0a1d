"""A small corpus of invented films, people and towns, and questions made of it."""

from __future__ import annotations

from searchgym.engines import build_engine
from searchgym.tasks.grounded import FAMILIES, GroundedTasks, ground
from searchgym.types import Passage

FILMS = (
    "Glass Orchard", "Night Ferry", "Paper Harbour", "Silent Meadow", "Copper Sky", "Low Tide",
    "Winter Clock", "Red Lantern", "Empty Chair", "Long Road", "Blue Kettle", "Stone Bread",
)  # fmt: skip
PEOPLE = ("Ida Holm", "Tom Reed", "Ana Solberg", "Karl Winther", "Mira Castell", "Jon Abbas")
TOWNS = ("Port Vale", "Eastmere", "Halden Bay", "Norwick", "Sandhaven", "Ulmstead")


def corpus() -> list[Passage]:
    """Twelve films by six people who were born in six towns: all of them invented."""
    texts = {}
    for i, film in enumerate(FILMS):
        maker = PEOPLE[i % 6]
        texts[f"{film} (film)"] = (
            f"{film} is a {1950 + 3 * i} drama film directed by {maker} and released by Lumen"
            f" Pictures. It won the Amber Lion at the festival of that year, after {maker} had cut"
            f" it twice in a barn of {TOWNS[i % 6]}."
        )
    for i, person in enumerate(PEOPLE):
        texts[person] = (
            f"{person} (born {3 + i} May {1920 + 2 * i}) is a Danish director who worked with Lumen"
            f" Pictures. {person.split()[-1]} was born in {TOWNS[i]}, where the barn near the"
            f" lighthouse still stands. The director was educated at the Royal Weaver School."
        )
    for i, town in enumerate(TOWNS):
        texts[town] = (
            f"{town} is a town in Denmark. The population of the town was {4000 + 137 * i} in 2011,"
            f" and its lighthouse was built in {1850 + i}. It lies beside a barn."
        )
    return [Passage(f"p{i}", t, text, "") for i, (t, text) in enumerate(texts.items())]


def made_of(passages: list[Passage], **options: object) -> GroundedTasks:
    from searchgym.corpora import Corpus

    search = build_engine("bm25", Corpus("films", passages)).search
    settings = {"at_most": True, "per_page": 6, **options}
    counts = settings.pop("counts", dict.fromkeys(FAMILIES, 12))
    return ground(passages, counts, search, name="films", **settings)  # type: ignore[arg-type]
