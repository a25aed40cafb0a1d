"""Checks that a schema must pass before anything is generated from it."""

from __future__ import annotations

import math
import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence

from ..errors import WorldError, mistakes, unknown
from .constraints import NOW, parse_fit
from .grammar import check_grammar
from .schema import EntityType, Phrases, Property, Schema

_SLOT = re.compile(r"\{([^{}]*)\}")
LEAST = 6
"""Fewest phrasings of a property on the page's side and on the question's side."""


def check_schema(
    schema: Schema, where: str, found: Sequence[str] = (), incomplete: Container[str] = ()
) -> None:
    """Raise ``WorldError`` with every rule a schema breaks.

    ``found``: mistakes that are known already. ``incomplete``: the types and properties that lack
    what could be checked.
    """
    if all_found := [*found, *_mistakes(schema, where, incomplete)]:
        raise WorldError(mistakes(where, all_found))


def _mistakes(schema: Schema, where: str, incomplete: Container[str]) -> Iterator[str]:
    if not schema.types:
        yield f"{where}: no types; a schema needs at least one [types.NAME] table"
        return  # of what is of these types, nothing can be said
    if not schema.properties:
        yield f"{where}: no relations or attributes; nothing could be asked"
    if schema.now and not 1000 <= schema.now <= 9000:
        yield f"{where}: now is a year from 1000 to 9000, got {schema.now}"
    types = {t.name: t for t in schema.types}
    properties = {p.name: p for p in schema.properties}
    for p in schema.properties:
        if p.name not in incomplete:
            yield from _property(p, types, properties, f"{where}: {p.name}")
            yield from _fitting(p, types, properties, schema.now, f"{where}: {p.name}")
    for t in schema.types:
        mine = {p.name: p for p in schema.properties if p.source == t.name}
        if len(mine) > 60:
            yield f"{where}: {t.name} has {len(mine)} properties; at most 60 fit a page"
        if t.name not in incomplete:
            yield from _type(t, mine, f"{where}: types.{t.name}")
    yield from _disjoint(schema.distractors, f"{where}: distractors")
    for phrase in _all(schema.distractors):
        yield from _slots(phrase, set(), {"s", "x"}, f"{where}: distractors")
    yield from _prose(dict(schema.prose), f"{where}: prose")


SAID = (
    "s", "it", "its", "him", "year", "later", "decade", "month", "season", "given",
    "family", "place", "word",
)  # fmt: skip
"""Slots of a prose grammar that stand for its subject, a time of its, and invented names."""
_NUMBERS = re.compile(r"(\d{1,9})\.\.(\d{1,9})", re.ASCII)
LONGEST, DEEPEST = 5_000, 50
"""Most characters that a symbol of a prose grammar may become, and most symbols in each other."""


def _prose(symbols: Mapping[str, Phrases], where: str) -> Iterator[str]:
    for name, phrases in symbols.items():
        here = f"{where}.{name}"
        if not all(phrases_sides(phrases)):
            yield f"{here}: needs alternatives in both {name} and {name}_heldout"
        worded = [tuple(t for t in part if re.search(r"\w", _SLOT.sub("", t)))
                  for part in (phrases.train, phrases.heldout)]  # fmt: skip
        yield from _disjoint(Phrases(*worded), here)
        for text in _all(phrases):
            for slot in slots(text):
                numbers = _NUMBERS.fullmatch(slot)
                if numbers and int(numbers[1]) > int(numbers[2]):
                    yield f"{here}: the first number of {{{slot}}} is the larger one"
                elif not (numbers or slot in SAID or slot.lower() in symbols):
                    yield f"{here}: {unknown('symbol', slot, (*SAID, *symbols))} In: {text!r}"
    used = {
        name: {s.lower() for text in _all(phrases) for s in slots(text)} & symbols.keys()
        for name, phrases in symbols.items()
    }
    size: dict[str, tuple[int, int]] = {}
    while ended := [name for name, inner in used.items() if not inner & used.keys()]:
        for name in ended:
            del used[name]
            size[name] = _extent(symbols[name], size)
            if size[name][0] > LONGEST or size[name][1] > DEEPEST:
                yield (
                    f"{where}.{name}: may become more than {LONGEST:,} characters, or holds more "
                    f"than {DEEPEST} symbols in each other"
                )
                size[name] = 0, 0  # said once
    if used:
        yield f"{where}: symbols that hold themselves never end: {', '.join(sorted(used))}"


def _extent(phrases: Phrases, size: Mapping[str, tuple[int, int]]) -> tuple[int, int]:
    """Characters that alternatives may become, and symbols in each other, from their parts'."""
    longest, deepest = 0, 0
    for text in _all(phrases):
        inner = [size[s] for slot in slots(text) if (s := slot.lower()) in size]
        longest = max(longest, len(text) + sum(length for length, _ in inner))
        deepest = max([deepest, *(depth for _, depth in inner)])
    return longest, deepest + 1


def check_rules(schema: Schema, where: str) -> None:
    """Raise ``WorldError`` for a rule whose path cannot be used, or for all mistakes of wording."""
    from .rules import rule_properties

    made = rule_properties(schema.rules, schema.properties, where)
    if found := [line for p in made for line in _asked(p, f"{where}: rules.{p.name}")]:
        raise WorldError(mistakes(where, found))


def slots(phrase: str) -> list[str]:
    """The names between braces, in order."""
    return _SLOT.findall(phrase)


def certain(p: Property) -> bool:
    """Return whether every entity of the source type has the property, whatever the seed."""
    crowded = p.is_relation and (p.cardinality in ("1-1", "1-n") or p.acyclic or p.symmetric)
    crowded = crowded or bool(p.lacks or p.apart)
    return p.presence >= 1.0 and not crowded and not p.within and not p.latest


def _all(phrases: Phrases) -> Iterable[str]:
    return (*phrases.train, *phrases.heldout)


def _type(t: EntityType, mine: dict[str, Property], where: str) -> Iterator[str]:
    if not 0 < t.share <= 1e6:
        yield f"{where}: share must be above 0 and at most a million, got {t.share}"
    try:
        check_grammar(t.names, where)
    except WorldError as error:
        yield str(error)
    if len(t.pronouns) not in (1, max(1, len(t.facets))):
        yield f"{where}: {len(t.pronouns)} pronouns for {len(t.facets)} facets"
    for pronoun in t.pronouns:
        if pronoun.count("/") != 1:
            yield f"{where}: a pronoun is written like 'it/its', got {pronoun!r}"
    if t.alias and t.alias != "full" and slots(t.alias) != ["a"]:
        yield f"{where}: alias must be 'full' or contain {{a}} once, got {t.alias!r}"
    yield from _disjoint(t.lead, f"{where}: lead")
    for side, leads in (("lead", t.lead.train), ("lead_heldout", t.lead.heldout)):
        always = 0
        for lead in leads:
            used = slots(lead)
            if not lead.startswith("{s}") or used.count("s") != 1:
                yield f"{where}: {side}: must begin with {{s}} (used once): {lead!r}"
            names = [u for u in used if u != "s"]
            if len(set(names)) != len(names):
                yield f"{where}: {side}: states a property twice: {lead!r}"
            known = [n.removesuffix(".alias") for n in names]
            for name, bare in zip(names, known, strict=True):
                if bare not in mine:
                    yield f"{where}: {side}: {unknown('property', name, mine)}"
            always += all(n not in mine or certain(mine[n]) for n in known)
        if not always:
            yield (
                f"{where}: {side}: at least one first sentence must use only properties that every "
                f"{t.noun} has: presence = 1, and no 1-1, 1-n, acyclic or within relation"
            )


def _property(
    p: Property, types: dict[str, EntityType], properties: dict[str, Property], where: str
) -> Iterator[str]:
    ends = [end for end in (p.source, p.target) if end is not None]
    for end in ends:
        if end not in types:
            yield f"{where}: {unknown('type', end, types)}"
    if not 0.0 < p.presence <= 1.0:
        yield f"{where}: presence must be in (0, 1], got {p.presence}"
    yield from _enough(p.document, f"{where}: document")
    for phrase in _all(p.document):
        yield from _slots(phrase, {"s", "o"}, {"s", "o"}, where)
        if slots(phrase).count("o") > 1:
            yield f"{where}: document: {{o}} must occur once: {phrase!r}"
    yield from _disjoint(p.document, f"{where}: document")
    for kind in ("aside", "tail"):
        for phrase in _all(getattr(p, kind)):
            yield from _slots(phrase, {"o"}, {"o", "it", "its", "him"}, f"{where}: {kind}")
        yield from _disjoint(getattr(p, kind), f"{where}: {kind}")
    yield from _asked(p, where)
    if p.is_relation and all(end in types for end in ends):
        yield from _relation(p, types, properties, where)
    elif not p.is_relation:
        yield from _attribute(p, properties, where)


def _enough(phrases: Phrases, where: str) -> Iterator[str]:
    if len(phrases.train) + len(phrases.heldout) < LEAST or not all(phrases_sides(phrases)):
        yield (
            f"{where}: {len(phrases.train)} train + {len(phrases.heldout)} held-out phrasings; "
            f"at least {LEAST} in all are needed, with some on either side"
        )


def _asked(p: Property, where: str) -> Iterator[str]:
    yield from _enough(p.question, f"{where}: question")
    for phrase in _all(p.question):
        yield from _slots(phrase, {"s"}, {"s", "o"}, where)
        if "o" in slots(phrase):
            yield f"{where}: question: {{o}} would give the answer away: {phrase!r}"
    for kind, slot in (("noun", "s"), ("inverse", "o")):
        for phrase in _all(getattr(p, kind)):
            yield from _slots(phrase, {slot}, {slot}, f"{where}: {kind}")
    if not all(phrases_sides(p.noun)):
        yield f"{where}: noun: needs phrases in both noun and noun_heldout"
    for kind in ("question", "noun", "inverse"):
        yield from _disjoint(getattr(p, kind), f"{where}: {kind}")


def phrases_sides(phrases: Phrases) -> tuple[bool, bool]:
    """Return whether there are phrases for training, and held-out ones."""
    return bool(phrases.train), bool(phrases.heldout)


def _relation(
    p: Property, types: dict[str, EntityType], properties: dict[str, Property], where: str
) -> Iterator[str]:
    assert p.target is not None
    if p.cardinality not in ("1-1", "n-1", "1-n", "n-n"):
        yield (f"{where}: {unknown('cardinality', p.cardinality, ('1-1', 'n-1', '1-n', 'n-n'))}")
    loops = p.source == p.target
    if p.acyclic and not loops:
        yield (
            f"{where}: acyclic needs source and target of one type, got {p.source} -> {p.target}; "
            "relations between different types have no cycles to forbid"
        )
    if p.gap and not (p.acyclic and 0 < p.gap < 1):
        yield f"{where}: gap needs acyclic = true and a value in (0, 1), got {p.gap}"
    if p.symmetric:
        if not loops:
            yield f"{where}: symmetric needs source and target of one type"
        if p.acyclic:
            yield f"{where}: symmetric and acyclic exclude each other"
        if p.cardinality not in ("1-1", "n-n"):
            yield (f"{where}: a symmetric relation is 1-1 or n-n, {p.cardinality} is impossible")
        if p.target_facet:
            yield f"{where}: a symmetric relation cannot ask for a target_facet"
    if p.target_facet and p.target_facet not in types[p.target].facets:
        known = types[p.target].facets
        yield f"{where}: target_facet: {unknown('facet', p.target_facet, known)}"
    if p.within:
        via = properties.get(p.within)
        if via is None:
            yield f"{where}: within: {unknown('relation', p.within, properties)}"
            return
        end = p.source
        if p.of:
            of = properties.get(p.of)
            end = of.target if of and of.source == p.source and of.target else ""
            if not end:
                relations = [n for n, q in properties.items() if q.target and q.source == p.source]
                yield f"{where}: of: {unknown(f'relation of {p.source}', p.of, relations)}"
                return
        if (via.source, via.target) != (p.target, end):
            yield (
                f"{where}: within = {p.within!r} must lead from {p.target} to {end}, "
                f"it leads from {via.source} to {via.target}"
            )
        plain = p.cardinality in ("1-1", "n-1") and not p.symmetric
        if not plain or (p.acyclic and not p.fits) or (via.within and not p.fits):
            yield f"{where}: within goes with a plain 1-1 or n-1 relation only"


def _fitting(
    p: Property, types: dict[str, EntityType], properties: dict[str, Property], now: int, where: str
) -> Iterator[str]:
    """Mistakes of the keys that ``worlds.constraints`` reads."""
    if p.elder and not (p.after and now):
        yield f"{where}: elder goes with after, and needs the year `now` of the schema"
    if not p.is_relation:
        return
    relations = {n: q for n, q in properties.items() if q.is_relation}
    apart = False
    for place, text in enumerate(p.fits):
        try:
            fit = parse_fit(text)
        except ValueError as error:
            yield f"{where}: fits: {error}"
            return
        ends = []
        for kind, name in ((p.target, fit.object), (p.source, fit.subject)):
            mine = {n: q for n, q in properties.items()
                    if q.source == kind and q.value in ("date", "year", "count")}  # fmt: skip
            if name in mine:
                ends.append(mine[name].value == "count")
            elif name != NOW or kind != p.source:
                yield f"{where}: fits: {unknown(f'attribute of {kind}', name, mine)}"
            elif not now:
                yield f"{where}: fits: {text!r} needs the year `now` of the schema"
        if len(set(ends)) == 2:
            yield f"{where}: fits: {text!r} compares a number with a year"
        if not place and (key := properties.get(fit.object)) and key.presence < 1.0:
            yield f"{where}: fits: {fit.object!r} comes first and needs presence = 1"
        apart |= fit.object == fit.subject and (fit.high < 0 or fit.low > 0)
    if p.fits and p.acyclic and not apart:
        yield f"{where}: fits must keep an acyclic relation's ends apart ('born: born -60..-15')"
    if p.symmetric and p.fits and not 0 < parse_fit(p.fits[0]).high < math.inf:
        yield f"{where}: fits: a symmetric relation's first is of a form such as 'born: born -9..9'"
    if p.follows:
        at = p.source
        for step in p.follows.split("/"):
            if step not in relations or relations[step].source != at:
                yield f"{where}: follows: {unknown(f'relation of {at}', step, relations)}"
                return
            at = relations[step].target or ""
        if at != p.target or p.cardinality != "n-1":
            yield f"{where}: follows = {p.follows!r} must lead to {p.target}, in an n-1 relation"
    if p.lacks and getattr(relations.get(p.lacks), "source", "") != p.target:
        yield f"{where}: lacks: {unknown(f'relation of {p.target}', p.lacks, relations)}"
    if p.apart and getattr(relations.get(p.apart), "source", "") != p.source:
        yield f"{where}: apart: {unknown(f'relation of {p.source}', p.apart, relations)}"
    if p.across and not (p.symmetric and p.fits and len(types[p.source].facets) == 2):
        yield f"{where}: across goes with symmetric and fits, in a type of two facets"
    if p.near and not (p.symmetric and p.cardinality == "n-n"):
        yield f"{where}: near goes with a symmetric n-n relation"
    if p.along:
        via, (by, _, each) = relations.get(p.along), p.per.partition(" ")
        if via is None or not via.symmetric or via.source != p.target or p.cardinality != "n-n":
            yield f"{where}: along: needs a symmetric relation of {p.target}, in an n-n relation"
        if by not in properties or properties[by].source != p.source or not each.isdecimal():
            yield f"{where}: per: expected a form such as 'river_length 250', got {p.per!r}"


def _attribute(p: Property, properties: dict[str, Property], where: str) -> Iterator[str]:
    kinds = ("date", "year", "count", "category")
    if p.value not in kinds:
        yield f"{where}: {unknown('value', str(p.value), kinds)}"
        return
    if p.value == "category":
        if len(set(p.categories)) < 2 or len(set(p.categories)) != len(p.categories):
            yield f"{where}: categories must be at least two different texts"
        if p.ordered or p.after:
            yield f"{where}: ordered and after are for dates, years and counts"
        return
    least = 1 if p.value in ("date", "year") and not p.after else 0
    if not least <= p.low < p.high:
        yield f"{where}: needs {least} <= low < high, got low={p.low} high={p.high}"
    if p.high > 10**15:
        yield f"{where}: numbers end at 10^15, got high={p.high}"
    if p.value in ("date", "year") and p.high > 9000:
        yield f"{where}: years end at 9000, got high={p.high}"
    for name in (p.more, p.less):
        if name and name.count("|") != 1:
            yield (f"{where}: write 'older|oldest' (comparative|superlative), got {name!r}")
    if p.latest and not (p.after and 0 < p.latest <= 9000):
        yield f"{where}: latest goes with after and is a year, got {p.latest}"
    if p.after:
        first = properties.get(p.after)
        if first is None:
            yield f"{where}: after: {unknown('attribute', p.after, properties)}"
            return
        if first.source != p.source or first.value != p.value or first.after:
            yield (
                f"{where}: after = {p.after!r} must be a {p.value} of the same type that does not "
                "itself come after another"
            )
        if first.presence < 1.0:
            yield f"{where}: after = {p.after!r} needs an attribute with presence = 1"


def _slots(phrase: str, must: set[str], may: set[str], where: str) -> Iterator[str]:
    used = slots(phrase)
    for slot in used:
        if slot not in may:
            yield f"{where}: {unknown('slot', slot, may)} In: {phrase!r}"
    missing = must - set(used)
    if missing or phrase.count("{") != len(used) or phrase.count("}") != len(used):
        lack = ", ".join("{" + m + "}" for m in sorted(missing)) or "balanced braces"
        yield f"{where}: phrase lacks {lack}: {phrase!r}"


def _disjoint(phrases: Phrases, where: str) -> Iterator[str]:
    def key(text: str) -> str:
        return " ".join(text.lower().split())

    seen: dict[str, str] = {}
    for side, texts in (("train", phrases.train), ("heldout", phrases.heldout)):
        for text in texts:
            if key(text) in seen:
                other = seen[key(text)]
                why = "twice" if other == side else "in both the train and the heldout phrasings"
                yield f"{where}: {text!r} occurs {why}; they must be disjoint"
            seen[key(text)] = side
