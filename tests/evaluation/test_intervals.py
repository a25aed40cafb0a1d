import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from searchgym.errors import EvaluationError
from searchgym.evaluation import intervals
from searchgym.evaluation.differences import (
    crossed_interval,
    holm,
    paired_interval,
    score_interval,
    sign_flip_p,
    tango,
)
from searchgym.evaluation.intervals import TAILS, mean_interval, resampled_means, student, wilson
from searchgym.evaluation.table import Column
from searchgym.seeding import stream


def percentile(x: np.ndarray, resamples: int = 10_000, seed: int = 0) -> tuple[float, float]:
    """The plain bootstrap, whose quantiles BCa corrects."""
    means = resampled_means(x, stream(seed, "bootstrap", len(x)), resamples)
    low, high = np.quantile(means, TAILS)
    return float(low), float(high)


def test_resampled_means_are_binomial() -> None:
    x = np.r_[np.ones(30), np.zeros(70)]
    # resampled successes are Binomial(100, 0.3): its 2.5 % and 97.5 % quantiles are 21 and 39
    assert percentile(x, 200_000) == (0.21, 0.39)


def test_bca_follows_the_skew() -> None:
    x = np.r_[np.ones(5), np.zeros(95)]
    low, high = percentile(x)
    bca = mean_interval(x, unit=True)
    assert bca.low >= low
    assert bca.high > high
    assert bca.high - bca.mean > bca.mean - bca.low


@pytest.mark.parametrize("kind", ["right or wrong", "partial", "skewed"])
def test_bca_is_scipys_of_the_same_resamples(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.Generator(np.random.PCG64(1))
    x = {
        "right or wrong": (rng.random(150) < 0.2).astype(np.float64),
        "partial": rng.random(80).round(1),
        "skewed": rng.gamma(1.0, size=80),
    }[kind]
    kept = []
    levels = intervals._bca_levels
    monkeypatch.setattr(
        intervals,
        "_bca_levels",
        lambda x, means: kept.append(means) or levels(x, means),
    )
    ours = mean_interval(x)
    resampled = stats.bootstrap((x,), np.mean, n_resamples=2, rng=1, method="basic")
    resampled.bootstrap_distribution = kept[0]
    theirs = stats.bootstrap((x,), np.mean, n_resamples=0, bootstrap_result=resampled, method="BCa")
    assert (ours.low, ours.high) == pytest.approx(tuple(theirs.confidence_interval), abs=1e-9)


def test_wilson_is_the_formula() -> None:
    z = stats.norm.ppf(0.975)
    for hits, n in ((0, 7), (3, 7), (7, 7), (58, 250), (4_000, 7_405)):
        p = hits / n
        centre, half = p + z * z / (2 * n), z * (p * (1 - p) / n + z * z / (4 * n * n)) ** 0.5
        ends = ((centre - half) / (1 + z * z / n), (centre + half) / (1 + z * z / n))
        assert wilson(hits, n) == pytest.approx(ends, abs=1e-9)


def test_students_t_is_scipys() -> None:
    for freedom in (1, 2, 3, 4, 9, 10, 99, 500):
        assert student(freedom) == pytest.approx(stats.t.ppf(0.975, freedom), rel=1e-11)


def test_equal_values_keep_an_honest_width() -> None:
    none_right = mean_interval(np.zeros(58), unit=True)
    assert none_right.low == 0
    assert none_right.high == pytest.approx(wilson(0, 58)[1])
    assert mean_interval(np.ones(58), unit=True).low < 0.95
    share = wilson(0, 9)[1]
    assert mean_interval(np.full(9, 0.3), unit=True)[:3] == pytest.approx(
        (0.3, 0.3 * (1 - share), 0.3 + 0.7 * share)
    )
    assert mean_interval(np.full(9, 2.0))[:3] == pytest.approx((2, 2 - 2 * share, 2 + 2 * share))


@pytest.mark.parametrize("value", [0.0, 0.3, 1.0, 7.0, -2.0])
@pytest.mark.parametrize("n", [1, 2, 5])
def test_no_interval_is_a_point(value: float, n: int) -> None:
    equal = np.full(n, value)
    unit = 0 <= value <= 1
    found = {
        "mean": mean_interval(equal),
        "unit": mean_interval(equal, unit=True) if unit else mean_interval(equal),
        "paired, equal": paired_interval(equal, equal),
        "paired, all apart": paired_interval(equal, np.zeros(n)),
        "seeds": crossed_interval([equal, equal], unit=unit),
        "seeds, bounded": crossed_interval([equal, equal], bound=max(1, abs(value))),
        "seeds that cancel out": crossed_interval([[value, -value], [-value, value]]),
    }  # fmt: skip
    for name, interval in found.items():
        assert interval.low <= interval.mean + 1e-12 <= interval.high + 2e-12, name
        assert interval.high - interval.low > 0.15, name
        if unit and name == "unit":
            assert 0 <= interval.low < interval.high <= 1


def test_missing_values_are_not_counted() -> None:
    assert mean_interval([1.0, np.nan, 0.0]).n == 2
    assert np.isnan(mean_interval([np.nan]).mean)
    assert mean_interval([]).n == 0


def test_errors_name_what_was_got() -> None:
    with pytest.raises(EvaluationError, match="must lie in"):
        mean_interval([0.5, 1.5], unit=True)
    with pytest.raises(EvaluationError, match="got 2 and 3"):
        paired_interval([1, 2], [1, 2, 3])


@given(
    st.lists(st.floats(0, 1, allow_subnormal=False), min_size=1, max_size=60), st.integers(0, 99)
)
def test_an_interval_holds_its_mean_and_stays_inside(x: list[float], seed: int) -> None:
    interval = mean_interval(x, unit=True, seed=seed, resamples=300)
    assert 0 <= interval.low <= interval.high <= 1
    assert min(x) - 1e-9 <= interval.mean <= max(x) + 1e-9
    assert interval == mean_interval(x, unit=True, seed=seed, resamples=300)


@pytest.mark.parametrize("size", [1e-300, 1e-117, 1e150, 1e300])
def test_the_size_of_the_numbers_does_not_matter(size: float) -> None:
    usual = mean_interval([0.0, 1.0, 3.0, 4.0], resamples=300)
    interval = mean_interval([0.0, size, 3 * size, 4 * size], resamples=300)
    assert interval.low == pytest.approx(usual.low * size)
    assert interval.high == pytest.approx(usual.high * size)


@pytest.mark.parametrize(("n", "p"), [(58, 0.1), (58, 0.5), (250, 0.1)])
def test_bca_covers_means_of_zero_one_and_partial_scores(n: int, p: float) -> None:
    rng = np.random.Generator(np.random.PCG64(3))
    hits = plain = 0
    for trial in range(300):
        u = rng.random(n)
        x = np.where(u < p, 1.0, np.where(u < 1.4 * p, 0.5, 0.0))
        interval = mean_interval(x, seed=trial, resamples=600, unit=True)
        hits += interval.low <= 1.2 * p <= interval.high
        low, high = percentile(x, 600, trial)
        plain += low <= 1.2 * p <= high
    assert 0.92 <= hits / 300 <= 1.0  # ±0.025 is two standard errors of 300 trials
    assert hits >= plain - 9


def test_pairing_narrows_the_interval() -> None:
    rng = np.random.Generator(np.random.PCG64(0))
    hard = rng.random(300)
    a, b = np.clip(hard + 0.05, 0, 1), hard
    paired = paired_interval(a, b)
    assert paired.excludes(0)
    assert paired.high - paired.low < 0.2 * (mean_interval(a).high - mean_interval(a).low)


def test_tango_by_hand() -> None:
    z2 = stats.norm.ppf(0.975) ** 2
    assert tango(0, 0, 10) == pytest.approx((-z2 / (10 + z2), z2 / (10 + z2)))
    # its edges are where the score statistic is z: worked out there from the likelihood itself
    low, high = tango(12, 2, 50)
    for delta in (low, high):
        q = np.linspace(max(0, -delta), (1 - delta) / 2, 400_001)[1:-1]
        likely = 12 * np.log(q + delta) + 2 * np.log(q) + 36 * np.log(1 - 2 * q - delta)
        variance = 50 * (2 * q[likely.argmax()] + delta - delta**2)
        assert (12 - 2 - 50 * delta) ** 2 / variance == pytest.approx(z2, rel=1e-3)
    swapped = tango(2, 12, 50)
    assert (-swapped[1], -swapped[0]) == pytest.approx((low, high), abs=1e-9)


@pytest.mark.parametrize(
    ("n", "more", "less"),
    [(20, 0.05, 0.02), (20, 0.03, 0.0), (58, 0.03, 0.0), (58, 0.05, 0.02), (200, 0.01, 0.01)],
)
def test_intervals_of_few_disagreements_cover(n: int, more: float, less: float) -> None:
    rng = np.random.Generator(np.random.PCG64(11))
    trials, hit, bare = 600, 0, 0
    for trial in range(trials):
        a, b = np.zeros(n), np.zeros(n)
        counts = rng.multinomial(n, [more, less, 1 - more - less])
        a[: counts[0]] = 1
        b[counts[0] : counts[0] + counts[1]] = 1
        told = paired_interval(a, b, seed=trial, resamples=200)
        one_seed = crossed_interval(a - b, seed=trial, bound=1.0, resamples=200)
        assert told == one_seed
        hit += told.low <= more - less <= told.high
        d = a - b
        alone = mean_interval(d, seed=trial, resamples=200)
        low, high = alone[1:3] if np.ptp(d) else (d[0], d[0])
        bare += low <= more - less <= high
    assert hit / trials >= 0.93  # two standard errors of 600 trials are 0.018
    assert bare < hit - 0.03 * trials  # the bootstrap by itself does not


def test_intervals_of_few_partial_disagreements_cover() -> None:
    rng = np.random.Generator(np.random.PCG64(12))
    for three in (False, True):
        hit = 0
        for trial in range(300):
            kind = rng.random((3 if three else 1, 20)) * np.ones((3 if three else 1, 1))
            if three:
                kind[1:] = np.where(rng.random((2, 20)) < 0.7, kind[0], kind[1:])
            d = np.where(kind < 0.03, 0.5, np.where(kind < 0.05, -1 / 3, 0.0))
            told = crossed_interval(d, seed=trial, bound=1.0, resamples=200)
            hit += told.low <= 0.03 * 0.5 - 0.02 / 3 <= told.high
        assert hit / 300 >= 0.93


def test_intervals_of_few_disagreements_of_several_seeds_cover() -> None:
    rng = np.random.Generator(np.random.PCG64(13))
    hit = bare = 0
    for trial in range(400):
        shared = rng.random((1, 20))
        u = np.where(rng.random((3, 20)) < 0.6, shared, rng.random((3, 20)))
        d = np.where(u < 0.05, 1.0, np.where(u < 0.07, -1.0, 0.0))
        told = crossed_interval(d, seed=trial, bound=1.0, resamples=200)
        hit += told.low <= 0.03 <= told.high
        sample = crossed_interval(d, seed=trial, resamples=200)
        bare += sample.low <= 0.03 <= sample.high
    assert hit / 400 >= 0.93  # two standard errors of 400 trials are 0.022
    assert bare < hit - 0.05 * 400


def test_equal_pairs_keep_an_honest_width() -> None:
    right = np.ones(10)
    equal = paired_interval(right, right)
    assert (equal.low, equal.high) == pytest.approx(tango(0, 0, 10))
    assert equal.method == "tango"
    assert paired_interval(right, 0 * right).low == pytest.approx(tango(10, 0, 10)[0])
    # counts have no bound of their own: values that were seen say how far others may lie
    calls = np.array([1.0, 5.0] * 5)
    assert paired_interval(calls, calls).high == pytest.approx(4 * tango(0, 0, 10)[1])
    five = paired_interval(5 * right, 5 * right)
    assert five[:3] == pytest.approx((0, *(5 * end for end in tango(0, 0, 10))))
    seeds = np.zeros((3, 10))
    assert crossed_interval(seeds, bound=1.0) == equal
    seeds[0] = 1
    apart, bare = crossed_interval(seeds, bound=1.0), crossed_interval(seeds)
    assert apart.low <= min(bare.low, 0) < 1 / 3 < bare.high <= apart.high
    assert np.isnan(paired_interval([np.nan], [1.0]).mean)
    with pytest.raises(EvaluationError, match="within ±1"):
        score_interval(2 * right, 1.0)


def test_many_disagreements_are_resampled_as_before() -> None:
    d = np.repeat([1.0, 0.0, -1.0], [20, 200, 10])
    for bound in (None, 1.0):
        assert crossed_interval(d, bound=bound) == mean_interval(d)
    table = np.stack([d, np.roll(d, 1)])
    assert crossed_interval(table, bound=1.0) == crossed_interval(table)


def test_crossed_interval_speaks_of_seeds_and_questions() -> None:
    rng = np.random.Generator(np.random.PCG64(0))
    question = 0.3 * rng.standard_normal((1, 400))
    alike = 0.1 + question + np.zeros((3, 1))
    apart = alike + np.array([[-0.1], [0.0], [0.1]])
    one, same, wide = (crossed_interval(t) for t in (alike[:1], alike, apart))
    assert one.mean == pytest.approx(same.mean)
    # copies of one seed add no information, and none is claimed
    assert same.high - same.low == pytest.approx(one.high - one.low, rel=0.05)
    assert wide.high - wide.low > 1.5 * (same.high - same.low)
    assert crossed_interval([[1.0, np.nan], [1.0, 2.0]]).n == 1


def test_sign_flips_count_every_arrangement() -> None:
    # 3 equal differences: of 8 arrangements, 2 are as extreme
    assert sign_flip_p([1, 1, 1], resamples=40_000) == pytest.approx(0.25, abs=0.01)
    assert sign_flip_p([0.0, 0.0]) == 1.0
    assert sign_flip_p([1.0] * 30) == pytest.approx(1 / 10_001)


def test_holm_by_hand() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.9, 0.6]) == [1.0, 1.0]
    assert holm([]) == []


def test_small_sets_whose_pairs_all_differ_are_no_few() -> None:
    """Tango's interval counts parts of points as parts of pairs; it is for equal pairs."""
    better = np.linspace(0.1, 0.3, 14)
    found = paired_interval(0.5 + better, np.full(14, 0.5))
    assert found.low > 0
    assert found.method == "bca"
    assert sign_flip_p(better) < 0.001


def test_what_rounds_to_zero_has_no_sign() -> None:
    near = intervals.Interval(-0.001, -0.004, 0.004, 9, "bca")
    assert f"{near:.2f}" == "0.00 [0.00, 0.00]"
    assert f"{near:+.2f}" == "+0.00 [+0.00, +0.00]"
    column = Column("f1", "F1", 2, signed=True)
    assert column.text(near) == "+0.00 [+0.00, +0.00]"
    assert column.text(-0.001) == "+0.00"
    assert Column("f1", "F1", 2).text(-1234.5) == "-1,234.50"
    assert str(near) == "-0.001 [-0.004, 0.004]"
