"""Counts facts of a world that contradict each other: what calendars, maps and families forbid.

Reads facts alone, and knows nothing of how they were made. ``python -m tests.worlds.contradictions
encyclopedia encyclopedia-v1`` prints the table.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from datetime import date
from functools import cache

from searchgym.envs import SearchEnv
from searchgym.worlds.world import World

SPLITS = ("train", "dev", "test")
NOW = 2025
Count = tuple[int, int]
"""Contradictions, and facts that could be one."""


class Facts:
    """Objects and values by property and subject."""

    def __init__(self, world: World) -> None:
        self.of: dict[str, dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
        for e in range(world.n_entities):
            for fact in world.facts_of(e):
                p = world.prop(fact)
                value = date.fromordinal(fact.object).year if p.value == "date" else fact.object
                self.of[p.name][e].append(value)
        self.facet = world.facet_of.tolist()

    def pairs(self, name: str) -> Iterator[tuple[int, int]]:
        return ((s, o) for s, objects in self.of[name].items() for o in objects)

    def year(self, name: str, entity: int) -> int | None:
        return self.of[name][entity][0] if entity in self.of[name] else None

    def one(self, name: str, entity: int) -> int | None:
        return self.year(name, entity)

    def count(self, name: str, bad: Callable[[int, int], bool | None]) -> Count:
        """How many pairs of a relation are bad; None leaves a pair out."""
        found = [verdict for s, o in self.pairs(name) if (verdict := bad(s, o)) is not None]
        return sum(found), len(found)


def misplaced(facts: Facts, relation: str, at: str, low: int, high: int = 100) -> Count:
    """Objects of a relation, people, who were not of that age at a year of the subject, or not
    alive."""

    def bad(s: int, o: int) -> bool | None:
        when = facts.year(at, s) if at else NOW
        if when is None:
            return None
        born, died = facts.year("birth_date", o), facts.year("death_date", o)
        assert born is not None
        return not low <= when - born <= high or (died is not None and died < when)

    return facts.count(relation, bad)


def before(facts: Facts, relation: str, mine: str, theirs: str) -> Count:
    """Objects of a relation that came after the subject."""

    def bad(s: int, o: int) -> bool | None:
        a, b = facts.year(mine, s), facts.year(theirs, o)
        return None if a is None or b is None else b > a

    return facts.count(relation, bad)


def encyclopedia(facts: Facts) -> Iterator[tuple[str, Count]]:
    """The kinds of contradiction of the encyclopedia, and how often each occurs."""
    born, died = facts.of["birth_date"], facts.of["death_date"]
    yield (
        "founder no living adult at the founding",
        misplaced(facts, "founder", "company_founded", 18),
    )
    yield "author no living adult at the book", misplaced(facts, "author", "book_year", 18)
    yield "director no living adult at the film", misplaced(facts, "director", "film_year", 18)
    yield "composer no living adult at the film", misplaced(facts, "composer", "film_year", 18)
    yield "actor not living or under 16 at the film", misplaced(facts, "cast", "film_year", 16)
    yield (
        "actor not living or under 16 at the series",
        misplaced(facts, "tv_cast", "first_aired", 16),
    )
    yield "creator no living adult at the series", misplaced(facts, "creator", "first_aired", 18)
    yield "producer no living adult at the album", misplaced(facts, "producer", "album_year", 18)
    yield (
        "band member under 15 or dead at the forming",
        misplaced(facts, "band_member", "band_formed", 15),
    )
    yield "architect no living adult at the opening", misplaced(facts, "architect", "opened", 18)
    yield (
        "describer no living adult at the description",
        misplaced(facts, "describer", "described", 18),
    )
    for office in ("mayor", "head_of_state", "chief_executive", "president", "editor", "coach"):
        yield f"{office} dead, under 18 or over 90", misplaced(facts, office, "", 18, 90)
    yield "living at over 105", (
        sum(NOW - year > 105 and e not in died for e, (year,) in born.items()), len(born)
    )  # fmt: skip
    yield "died before birth or at over 110", (
        sum(not 0 <= year - born[e][0] <= 110 for e, (year,) in died.items()), len(died)
    )  # fmt: skip
    yield "film not after its book", before(facts, "based_on", "film_year", "book_year")
    yield "sequel before its film", before(facts, "sequel_to", "film_year", "film_year")
    yield "album before its band", before(facts, "performer", "album_year", "band_formed")
    yield "film before its company", before(facts, "film_company", "film_year", "company_founded")
    yield "book before its publisher", before(facts, "publisher", "book_year", "company_founded")
    yield "album before its label", before(facts, "record_label", "album_year", "company_founded")
    yield "series before its network", before(facts, "network", "first_aired", "company_founded")
    yield (
        "award before its presenter",
        before(facts, "presenter", "first_awarded", "company_founded"),
    )
    yield "award to the dead or unborn", facts.count(
        "award_received",
        lambda s, o: facts.of["first_awarded"][o][0] > min(
            (facts.year("death_date", s) or NOW), born[s][0] + 100)
    )  # fmt: skip
    yield (
        "studied before the university was",
        facts.count(
            "alma_mater", lambda s, o: facts.of["university_founded"][o][0] > born[s][0] + 40
        ),
    )
    yield "played when the team was not", facts.count(
        "plays_for",
        lambda s, o: facts.of["team_founded"][o][0] > min(
            (facts.year("death_date", s) or NOW), born[s][0] + 45)
    )  # fmt: skip
    yield (
        "spouses over 30 years apart",
        facts.count("spouse", lambda s, o: abs(born[s][0] - born[o][0]) > 30),
    )
    yield (
        "spouse dead before the other was grown up",
        facts.count("spouse", lambda s, o: (facts.year("death_date", o) or NOW) < born[s][0] + 16),
    )
    yield (
        "spouse is a parent, child or sibling",
        facts.count("spouse", lambda s, o: _near(facts, s, o)),
    )
    for parent, most in (("father", 62), ("mother", 50)):
        ages = [born[s][0] - born[o][0] for s, o in facts.pairs(parent)]
        bad = sum(not 15 <= age <= most for age in ages)
        yield f"{parent} not 15 to {most} years older", (bad, len(ages))
        yield (
            f"{parent} dead before the birth",
            facts.count(parent, lambda s, o: (facts.year("death_date", o) or NOW) < born[s][0] - 1),
        )
    yield (
        "parents of whom one is married to another",
        facts.count("father", lambda s, o: _other_marriage(facts, o, facts.one("mother", s))),
    )
    river = facts.of["flows_through"]
    yield "river through countries that do not touch", (
        sum(not _connected(countries, facts) for countries in river.values()), len(river)
    )  # fmt: skip
    yield "countries too many for the river's length", (
        sum(len(countries) > 1 + facts.of["river_length"][e][0] / 100
            for e, countries in river.items()), len(river)
    )  # fmt: skip
    yield (
        "city's river does not flow through its country",
        facts.count("city_river", lambda s, o: facts.of["located_in"][s][0] not in river[o]),
    )
    yield (
        "tributary meets its river nowhere",
        facts.count("tributary_of", lambda s, o: not set(river[s]) & set(river[o])),
    )
    yield (
        "tributary longer than its river",
        facts.count(
            "tributary_of", lambda s, o: facts.of["river_length"][s] > facts.of["river_length"][o]
        ),
    )
    yield (
        "ground in another city",
        facts.count(
            "home_ground", lambda s, o: facts.of["stadium_city"][o] != facts.of["team_city"][s]
        ),
    )
    yield (
        "capital in another country",
        facts.count("capital", lambda s, o: facts.of["located_in"][o] != [s]),
    )


def _near(facts: Facts, a: int, b: int) -> bool:
    parents = [{*facts.of["father"].get(e, []), *facts.of["mother"].get(e, [])} for e in (a, b)]
    return a in parents[1] or b in parents[0] or bool(parents[0] & parents[1])


def _other_marriage(facts: Facts, father: int, mother: int | None) -> bool | None:
    if mother is None:
        return None
    spouses = [facts.one("spouse", father), facts.one("spouse", mother)]
    return spouses != [None, None] and spouses != [mother, father]


def _connected(countries: list[int], facts: Facts) -> bool:
    reached, left = {countries[0]}, set(countries[1:])
    while more := {c for c in left if reached & set(facts.of["borders"].get(c, ()))}:
        reached |= more
        left -= more
    return not left


def abroad(facts: Facts) -> Count:
    """Citizens of another country than that of their birth: some, as in life."""
    return facts.count(
        "citizenship", lambda s, o: facts.of["located_in"][facts.of["birthplace"][s][0]] != [o]
    )


def research(facts: Facts) -> Iterator[tuple[str, Count]]:
    """The kinds of contradiction of the research world, and how often each occurs."""
    doctor = facts.of["doctorate_year"]

    def late(relation: str, at: str) -> Count:
        return facts.count(relation, lambda s, o: not -1 <= facts.of[at][s][0] - doctor[o][0] <= 60)

    yield "paper before its author's doctorate", late("written_by", "paper_year")
    yield "paper before the paper it cites", before(facts, "cites", "paper_year", "paper_year")
    yield (
        "paper before its disease was identified",
        before(facts, "studies", "paper_year", "identified"),
    )
    yield (
        "advisor not 4 to 50 years a doctor",
        facts.count("advisor", lambda s, o: not 4 <= doctor[s][0] - doctor[o][0] <= 50),
    )
    yield (
        "collaborators over 45 years apart",
        facts.count("collaborator", lambda s, o: abs(doctor[s][0] - doctor[o][0]) > 45),
    )
    yield (
        "laboratory opened after a career",
        facts.count("affiliation", lambda s, o: facts.of["lab_opened"][o][0] > doctor[s][0] + 45),
    )
    yield (
        "head works elsewhere",
        facts.count("lab_head", lambda s, o: facts.of["affiliation"][o] != [s]),
    )
    yield (
        "head a doctor for over 60 years",
        facts.count("lab_head", lambda s, o: NOW - doctor[o][0] > 60),
    )


@cache
def world_of(corpus: str, split: str) -> World:
    """The world of a corpus card's split, as its environments play it."""
    world = SearchEnv(corpus=corpus, split=split, tasks={"simple": 1}).world
    assert world is not None
    return world


def table(world: World) -> dict[str, Count]:
    """Contradictions and cases by kind."""
    papers = any(t.name == "paper" for t in world.schema.types)
    return dict(research(Facts(world)) if papers else encyclopedia(Facts(world)))


def main(corpora: list[str]) -> None:
    for corpus in corpora:
        print(f"{corpus:50} " + " ".join(f"{split:>9}" for split in SPLITS))
        tables = [table(world_of(corpus, split)) for split in SPLITS]
        for kind in tables[0]:
            cells = [f"{t[kind][0]}/{t[kind][1]}" for t in tables]
            print(f"{kind:50} " + " ".join(f"{cell:>9}" for cell in cells))


if __name__ == "__main__":
    import sys

    main(sys.argv[1:])
