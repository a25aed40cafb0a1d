"""Bias, variance and direction of a method's gradient, held to the true one.

Numbers are of one step: one group of each question. They do not depend on the learning rate: a
gradient is compared with the true one up to a factor, which is given besides.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import combinations_with_replacement
from typing import Any, NamedTuple

import numpy as np

from searchgym.rl.slots.records import Floats

from .gradients import Bench, StepGradients
from .methods import table_of
from .policy import TabularLM, skilled, true_gradient
from .tree import TaskTree, grow

SIZES = (4, 8, 16)
SUCCESSES = (0.1, 0.4, 0.8)
"""Rates of exact match of the policies that are looked at."""
TEACHER = 0.95
"""Rate of exact match of the teacher that recipes distil from."""
ENUMERATED = 60_000
"""Largest number of groups that are all looked at; where there are more, some are drawn."""
STEPS, FEW = 2000, 150
"""Steps that are drawn: where many are computed at once, and where each is a batch of its own."""
BLOCKS = 20
"""Parts of a sample that are left out one by one to find the intervals (jackknife)."""
T_19 = 2.093
"""Student's t of 19 degrees of freedom at 97.5 %."""


class Estimated(NamedTuple):
    """A number with its 95 % interval; of equal ends where it was enumerated."""

    mean: float
    low: float
    high: float


class Quality(NamedTuple):
    """Quality of a method's gradient at one group size and one success rate."""

    method: str
    size: int
    success: float
    enumerated: bool
    """True if all groups were looked at (``step_cosine`` is drawn all the same)."""
    steps: int
    """Steps that were drawn."""
    cosine: Estimated
    """Cosine of the *expected* gradient with the true one: 1 without bias in direction; not a
    number where nothing along the true one can be told from noise."""
    step_cosine: Estimated
    """Mean cosine of *one step's* gradient with the true one: what a learner gets. A step that
    teaches nothing counts as 0."""
    factor: Estimated
    """Length of the expected gradient along the true one, in lengths of the true one: (G-1)/G for a
    baseline that holds the sample itself, where nothing else scales it."""
    bias: Estimated
    """Part of the expected gradient that is not along the true one, in lengths of the part that is:
    the tangent of the angle between them."""
    own_bias: Estimated | None
    """The same, held to the gradient of what the recipe pays (``Bench.paid``) in place of the
    return's; None if it pays the return."""
    variance: Estimated
    """Trace of the covariance, by the square of the length along the true gradient."""
    per_call: Estimated
    """Signal-to-noise (1 / variance) per hundred engine calls."""
    per_token: Estimated
    """Signal-to-noise per thousand sampled tokens."""
    calls: float
    """Engine calls of a step, on average."""
    tokens: float
    """Sampled tokens of a step, on average."""


class Moments(NamedTuple):
    """First and second moments of S steps' gradients (S infinite where all were enumerated)."""

    mean: Floats
    trace: float
    """Trace of the covariance of one step."""
    along: float
    """Variance along the true gradient."""
    steps: float
    calls: float
    tokens: float


def moments(steps: StepGradients, truth: Floats) -> Moments:
    """Moments of a sample of steps."""
    mean = steps.gradient.mean(0)
    apart = steps.gradient - mean
    count = len(steps.gradient)
    trace = float((apart**2).sum()) / max(count - 1, 1)
    unit = truth / np.linalg.norm(truth)
    along = float(((apart @ unit) ** 2).sum()) / max(count - 1, 1)
    return Moments(mean, trace, along, count, float(steps.calls.mean()),
                   float(steps.tokens.mean()))  # fmt: skip


def figures(m: Moments, truth: Floats) -> dict[str, float]:
    """The numbers of :class:`Quality` from moments, without the share of their squares that is
    sampling noise."""
    length = float(np.linalg.norm(truth))
    dot = float(m.mean @ truth) / length
    whole = float(m.mean @ m.mean) - m.trace / m.steps
    useful = dot * dot - m.along / m.steps
    if dot <= 0 or useful <= 0:  # nothing along the true gradient that is not noise
        return {"cosine": math.nan, "factor": dot / length, "bias": math.inf, "variance": math.inf,
                "per_call": 0.0, "per_token": 0.0}  # fmt: skip
    variance = m.trace / useful
    return {
        "cosine": math.sqrt(min(useful / max(whole, useful), 1.0)),
        "factor": dot / length,
        "bias": math.sqrt(max(whole - useful, 0.0) / useful),
        "variance": variance,
        # a method without noise has infinite ratios, which are of no use in a table
        "per_call": 100 / variance / m.calls if variance * m.calls > 0 else math.inf,
        "per_token": 1000 / variance / m.tokens if variance > 0 else math.inf,
    }


def step_cosines(gradient: Floats, truth: Floats) -> Floats:
    """(S,) cosine of each step's gradient with the true one; 0 for one of length 0."""
    lengths = np.linalg.norm(gradient, axis=1)
    dots = gradient @ truth / np.linalg.norm(truth)
    made: Floats = np.divide(dots, lengths, out=np.zeros(len(dots)), where=lengths > 1e-12)
    return made


def exact_moments(bench: Bench, truth: Floats) -> Moments | None:
    """Moments over *all* groups, each with its probability; None where there are too many or where
    a step is not the sum of its groups."""
    if not bench.apart:
        return None
    single = _adds_up(bench)
    size = 1 if single else bench.size
    numbers = [math.comb(len(p) + size - 1, size) for p in bench.odds]
    if sum(numbers) > ENUMERATED:
        return None
    unit = truth / np.linalg.norm(truth)
    times = bench.size // size
    mean, trace, along = np.zeros(len(truth)), 0.0, 0.0
    for question, chance in enumerate(bench.odds):
        groups = np.array(list(combinations_with_replacement(range(len(chance)), size)))
        odds = np.array([_multinomial(g, chance) for g in groups])
        gradient = bench.groups(question, groups)
        first = odds @ gradient
        mean += times * first
        trace += times * float(odds @ (gradient**2).sum(1) - first @ first)
        along += times * float(odds @ (gradient @ unit) ** 2 - (first @ unit) ** 2)
    chances = zip(bench.odds, bench.counts["calls"], bench.counts["tokens"], strict=True)
    sums = [bench.size * np.array([p @ calls, p @ tokens]) for p, calls, tokens in chances]
    extra = bench.draw(1, 0)
    twin = [float(c[0]) for c in bench._costs(extra)] if bench.twins else [0.0, 0.0]
    if bench.twins:  # a greedy twin costs the same in every step
        drawn = [sum(float(bench.counts[n][q][extra[0, q]].sum()) for q in range(len(sums)))
                 for n in ("calls", "tokens")]  # fmt: skip
        twin = [a - b for a, b in zip(twin, drawn, strict=True)]
    calls, tokens = (float(sum(s[i] for s in sums)) + twin[i] for i in (0, 1))
    return Moments(mean, trace, along, math.inf, calls, tokens)


def _multinomial(group: Any, chance: Floats) -> float:
    """Probability of a group whatever the order of its members."""
    _, times = np.unique(group, return_counts=True)
    ways = math.factorial(len(group)) / math.prod(math.factorial(int(t)) for t in times)
    return float(ways * np.prod(chance[group]))


def _adds_up(bench: Bench) -> bool:
    """Check whether a group's gradient is the sum of its members', each alone."""
    draws = bench.draw(4, 1)[:, -1]
    alone = bench.groups(bench.tree.questions - 1, draws.reshape(-1, 1))
    whole = bench.groups(bench.tree.questions - 1, draws)
    together = alone.reshape(len(draws), bench.size, -1).sum(1)
    return bool(np.allclose(together, whole, rtol=1e-4, atol=1e-9) and np.abs(whole).max() > 0)


def quality(
    bench: Bench, truth: Floats, method: str, success: float, *, steps: int = STEPS,
    few: int = FEW, seed: int = 0, enumerate_groups: bool = True,
) -> Quality:  # fmt: skip
    """Measure a method at one group size and success rate."""
    exact = exact_moments(bench, truth) if enumerate_groups else None
    count = steps if bench.apart else few
    sample = bench.steps(count, seed)
    cosines = step_cosines(sample.gradient, truth)
    half = 1.96 * float(cosines.std(ddof=1)) / math.sqrt(count)
    average = float(cosines.mean())
    drawn = Estimated(average, average - half, average + half)
    if exact is not None:
        made = {n: Estimated(v, v, v) for n, v in figures(exact, truth).items()}
    else:
        made = _jackknife(sample, lambda part: figures(moments(part, truth), truth))
    cost = exact or moments(sample, truth)
    own: Estimated | None = None
    if (paid := bench.paid()) is not None:
        aim: Floats = true_gradient(bench.lm, paid)
        if exact is not None:
            own = Estimated(*[figures(exact, aim)["bias"]] * 3)
        else:
            own = _jackknife(sample, lambda part: figures(moments(part, aim), aim))["bias"]
    return Quality(
        method, bench.size, success, exact is not None, count, own_bias=own,
        step_cosine=drawn, calls=cost.calls, tokens=cost.tokens, **made,
    )  # fmt: skip


def _jackknife(
    sample: StepGradients, of: Callable[[StepGradients], dict[str, float]]
) -> dict[str, Estimated]:
    """Numbers of a sample, with intervals from leaving out each of its blocks."""
    whole, count = of(sample), len(sample.gradient)
    blocks = min(BLOCKS, count)
    parts = []
    for block in range(blocks):
        keep = np.arange(count) % blocks != block
        parts.append(
            of(StepGradients(sample.gradient[keep], sample.calls[keep], sample.tokens[keep]))
        )
    made = {}
    for name, value in whole.items():
        values = np.array([p[name] for p in parts])
        if not np.isfinite(values).all() or not math.isfinite(value):
            made[name] = Estimated(value, value, value)
            continue
        error = math.sqrt((blocks - 1) / blocks * float(((values - values.mean()) ** 2).sum()))
        low, high = value - T_19 * error, value + T_19 * error
        if name == "cosine":
            low, high = max(low, -1.0), min(high, 1.0)
        made[name] = Estimated(value, low, high)
    return made


class Laboratory:
    """The questions, the policies of several skills over them, and their true gradients."""

    def __init__(
        self, sizes: Sequence[int] = SIZES, successes: Sequence[float] = SUCCESSES, seed: int = 0
    ) -> None:
        self.sizes, self.successes = tuple(sizes), tuple(successes)
        self.tree: TaskTree = grow(seed=seed)
        self.lms: dict[float, TabularLM] = {s: skilled(self.tree, s) for s in self.successes}
        self.truth: dict[float, Floats] = {s: true_gradient(lm) for s, lm in self.lms.items()}
        self.teacher = skilled(self.tree, TEACHER)
        self._seen: dict[bytes, str] = {}

    def bench(self, method: str, size: int, success: float) -> Bench:
        """A method before one of the policies."""
        return Bench(table_of(method, size), self.lms[success], size, self.teacher)

    def same_as(self, method: str) -> str | None:
        """The method asked about before whose gradients are this one's in every step looked at;
        None if there is none, and this one is remembered."""
        size = self.sizes[0]
        probes = [self.bench(method, size, s).steps(4, 7).gradient for s in self.successes]
        probe = np.concatenate(probes)
        largest = float(np.abs(probe).max()) or 1.0
        key = np.round(probe / largest, 4).astype(np.float32) + np.float32(0.0)
        scale = np.float32(f"{largest:.3g}")
        known = self._seen.setdefault(key.tobytes() + scale.tobytes(), method)
        return None if known == method else known

    def measure(self, method: str, **options: Any) -> Iterator[Quality]:
        """A method's quality at every size and rate."""
        for size in self.sizes:
            for success in self.successes:
                bench = self.bench(method, size, success)
                yield quality(bench, self.truth[success], method, success, **options)
