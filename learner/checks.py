"""Conformance checks: what any algorithm, click model or estimator must do, for whoever writes another one.

Each function takes a factory without arguments and raises ``BrokenInvariant``, which names what does not hold.

>>> from learner import C2Ucb
>>> check_bandit(lambda: C2Ucb(dim=3, positions=4))
"""

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import permutations, product
from typing import Any

import numpy as np

from learner.arrays import Floats, Ints
from learner.bandits import Bandit, Ranking
from learner.click_models import ClickModel
from learner.evaluate import Estimate, LoggedLists, Policy
from learner.samples import Samples

Estimator = Callable[[LoggedLists, Policy], Estimate]
CANDIDATES = 20
EDGES = np.array(  # of arithmetic: no difference, no size, halfway between two steps of the grid, a bit below and above
    [-1, 1, 0, -0.0, 5e-324, -5e-324, 1e-45, 2**-17, -(2**-17), 0.5, np.nextafter(0.5, 0), np.nextafter(1, 0)]
)


class BrokenInvariant(AssertionError):
    """A class that does not keep what its kind promises."""


def check_bandit(make: Callable[[], Bandit], *, seed: int = 0) -> None:
    """Check an algorithm on random lists: ``make`` returns a fresh model, always with the same settings."""
    random, model = np.random.default_rng(seed), make()
    lists, more = (_random_lists(model, random) for _ in range(2))
    _check_description(model)
    mixed = replace(lists, sign=random.choice([1, 1, 1, -1], len(lists)))
    singles = [mixed[row : row + 1] for row in range(len(mixed))]
    _same("a batch equals its lists one by one", _learned(make, mixed), _learned(make, *singles))
    order = random.permutation(len(lists))
    shuffled = Samples.concat([lists[row : row + 1] for row in order])
    _same("any order of the lists gives the same state", _learned(make, lists), _learned(make, shuffled))
    back = replace(more, sign=-more.sign)
    _same("what was taken back leaves no trace", _learned(make, lists, more, back), _learned(make, lists))
    _same("what was taken back leaves no trace in a fresh model", _learned(make, more, back), make())
    whole, shard, restored = _learned(make, lists, more), _learned(make, more), make()
    restored.restore(_learned(make, lists).state())
    _same("a restored state equals the model that it was taken from", restored, _learned(make, lists))
    restored.learn(more)
    _same("a restored model goes on as if nothing had happened", restored, whole)
    merged = _learned(make, lists)
    merged.merge(shard)
    _same("merged shards equal one model", merged, whole)
    _require("rounds counts the lists", whole.rounds == len(lists) + len(more))
    _check_refusals(make, lists)
    _check_ranking(whole, random)


def check_click_model(make: Callable[[], ClickModel], *, seed: int = 0) -> None:
    """Check a click model on lists that random users have browsed: ``make`` returns one that is not fitted."""
    random = np.random.default_rng(seed)
    positions, lists, known = 4, 400, 6
    items = np.argsort(random.random((lists, known)), axis=1)[:, :positions]
    chance = np.linspace(0.7, 0.2, known)[items] * np.linspace(1.0, 0.4, positions)
    clicks = (random.random(items.shape) < chance).astype(np.float64)
    model = _fitted(make(), items, clicks)
    ids = np.arange(known + 1)  # the last one was never shown
    attractiveness = model.attractiveness(ids)
    _require("attractiveness is a chance for each item", _chances(attractiveness, ids.shape))
    _require("two fits of the same lists are the same", _equal(attractiveness, _fitted(make(), items, clicks), ids))
    again = _fitted(_fitted(make(), items[:50], 1 - clicks[:50]), items, clicks)
    _require("a fit forgets the one before", _equal(attractiveness, again, ids))
    order = random.permutation(lists)
    shuffled = _fitted(make(), items[order], clicks[order]).attractiveness(ids)
    _require("the order of the lists does not matter", np.allclose(shuffled, attractiveness, rtol=0, atol=1e-6))
    patterns = np.array(list(product([0.0, 1.0], repeat=positions)))
    for shown in (items[0], np.append(items[1][:-1], known)):
        same = np.tile(shown, (len(patterns), 1))
        joint = np.exp(model.log_likelihood_per_list(same, patterns))
        _require("the chance of each click pattern lies within 0 to 1", _chances(joint, (len(patterns),)))
        _require("the chances of all click patterns add up to 1", abs(joint.sum() - 1) < 1e-9)
        clicked = 1 / model.perplexity_per_rank(same[:1], np.ones((1, positions)))
        _require("P(click) adds up all clicks above it", np.allclose(clicked, joint @ patterns, rtol=0, atol=1e-9))
    rows = model.log_likelihood_per_list(items, clicks).sum() / items.size
    _require("the log-likelihood is the mean of its lists'", abs(rows - model.log_likelihood(items, clicks)) < 1e-9)
    _require("perplexity has a value for each rank", model.perplexity_per_rank(items, clicks).shape == (positions,))
    table, observations = model.examination_of(items, clicks)
    shape = (positions,) * table.ndim
    _require("the examination table holds chances", _chances(table, shape) and observations.shape == shape)
    _check_likelihood_rises(make, items, clicks)
    with _refusal("a fit of clicks that are not of the items' shape"):
        model.fit(items, clicks[:, :-1])
    with _refusal("lists longer than those of the fit"):
        model.log_likelihood(np.zeros((1, positions + 1), dtype=int), np.zeros((1, positions + 1)))
    _require("a refused log changes nothing", _equal(attractiveness, model, ids))
    with _refusal("a model that was not fitted", RuntimeError):
        make().attractiveness(ids)


def check_estimator(make: Callable[[], Estimator], *, tolerance: float = 1e-9) -> None:
    """Check an estimator where the truth is known: ``make`` returns a function of a log and a policy.

    Every list of two out of three items is logged with each of its clicks as often as these are likely, for users who
    look at both positions. There an estimator without bias tells the truth to rounding; ``tolerance`` allows for more.
    """
    attracts = np.array([0.25, 0.5, 0.75])
    shown, earned = [], []
    for items in permutations(range(3), 2):
        for clicks in product([0.0, 1.0], repeat=2):
            likely = np.prod(np.where(clicks, attracts[list(items)], 1 - attracts[list(items)]))
            shown += [items] * round(16 * likely)
            earned += [clicks] * round(16 * likely)
    log = LoggedLists.of(np.array(shown), np.array(earned))
    estimate = make()
    policies = {
        "one list": Policy.of([[2, 1]]),
        "two lists": Policy.of([[2, 1], [0, 2]], [0, 0], [0.25, 0.75]),
        "the policy that was logged": Policy.of(np.array(shown)[::16], np.zeros(6, dtype=int), np.full(6, 1 / 6)),
    }
    for name, policy in policies.items():
        truth = float(policy.chances @ attracts[policy.items].sum(axis=1))
        told = estimate(log, policy)
        apart = abs(told.value - truth)
        _require(f"the value of {name} is the truth, {truth:g}", apart <= tolerance, f"it is {told.value:g}")
        _require("the interval is ordered and finite", -np.inf < told.low <= told.high < np.inf)
        _require("the estimate counts its lists", told.lists == len(log))
        _require("two estimates are the same", told == estimate(log, policy))
        order = np.random.default_rng(0).permutation(len(log))
        other = estimate(LoggedLists.of(log.items[order], log.rewards[order]), policy)
        _require("the order of the lists does not matter", abs(other.value - told.value) <= 1e-9 + 2 * tolerance)
    with _refusal("a policy without a list for a logged context"):
        estimate(log, Policy.of([[0, 1]], [7]))


def _require(invariant: str, holds: bool | np.bool_, detail: str = "") -> None:
    if not holds:
        raise BrokenInvariant(f"does not hold: {invariant}{f'; {detail}' if detail else ''}")


@contextmanager
def _refusal(what: str, kind: type[Exception] = ValueError) -> Iterator[None]:
    try:
        yield
    except kind:
        return
    raise BrokenInvariant(f"does not hold: {what} raises {kind.__name__}")


def _random_lists(model: Bandit, random: np.random.Generator) -> Samples:
    """Return lists of all sizes with repeated items, and features up to the scale, as float32 or float64.

    Some features are drawn from ``EDGES``, and those of the first row are.
    """
    lists, scale = int(random.integers(1, 7)), float(getattr(model, "context_scale", 1.0))
    shape = (lists, model.positions, model.dim or 2)
    edged = random.random(shape) < 0.4
    edged[0, 0] = True
    contexts = np.where(edged, random.choice(EDGES, shape), random.uniform(-1, 1, shape))
    if random.random() < 0.5 and float(np.float32(scale)) == scale:
        contexts = contexts.astype(np.float32)
    return Samples.from_clicks(
        contexts * contexts.dtype.type(scale),
        random.choice([0.0, 0.0, 1.0, 0.3], shape[:2]) * model.reward_scale,
        random.integers(-3, 4, shape[:2]),
        sizes=random.integers(0, model.positions + 1, lists),
    )


def _learned(make: Callable[[], Bandit], *batches: Samples) -> Bandit:
    model = make()
    for batch in batches:
        model.learn(batch)
    return model


def _same(invariant: str, model: Ranking, other: Ranking) -> None:
    ours, theirs = _bits(model), _bits(other)
    apart = [name for name in ours if ours[name] != theirs.get(name)]
    _require(invariant, ours == theirs, f"{', '.join(apart)} differ")


def _bits(model: Ranking) -> dict[str, Any]:
    """Return everything learned as bytes; θ as None when more was taken back than learned."""
    learned: dict[str, Any] = {name: (cells.shape, cells.tobytes()) for name, cells in model.state().items()}
    try:
        learned["theta"] = model.theta.tobytes()
    except ArithmeticError:
        learned["theta"] = None
    return learned | {"sha256": model.sha256(), "rounds": model.rounds}


def _check_description(model: Bandit) -> None:
    state, sizes = model.state(), model.state_sizes(model.dim, model.positions)
    _require("the state has the arrays of state_sizes", state.keys() == sizes.keys(), f"{list(state)}, {list(sizes)}")
    for name, cells in state.items():
        _require(f"{name} of the state is int64", cells.dtype == np.int64, str(cells.dtype))
        _require(
            f"{name} of the state has its size", cells.shape == (len(cells) if sizes[name] is None else sizes[name],)
        )
    _require(
        "settings are those recorded", model.settings().keys() == {"algorithm", *model.recorded, *model.own_options}
    )
    _require("a contextual model has a dim", (model.dim > 0) == model.contextual)


def _check_refusals(make: Callable[[], Bandit], lists: Samples) -> None:
    model = _learned(make, lists)
    depth, dim = model.positions, lists.dim

    def shown(depth: int, dim: int, reward: float = 0.0) -> Samples:
        return Samples.from_clicks(np.zeros((1, depth, dim)), np.full((1, depth), reward), np.zeros((1, depth), int))

    bad = {"a position beyond K": shown(depth + 1, dim), "a reward too large": shown(1, dim, 2 * model.reward_scale)}
    if model.contextual:
        bad["a context of another length"] = shown(depth, dim + 1)
    for name, samples in bad.items():
        with _refusal(f"learning {name}"):
            model.learn(samples)
        _same(f"refusing {name} changes nothing", model, _learned(make, lists))
    for missing in model.state():
        with _refusal(f"a state without {missing}"):
            model.restore({name: cells for name, cells in model.state().items() if name != missing})
        _same(f"refusing a state without {missing} changes nothing", model, _learned(make, lists))
    model.learn(lists[:0])
    _same("no lists change nothing", model, _learned(make, lists))


def _check_ranking(model: Bandit, random: np.random.Generator) -> None:
    scale = float(getattr(model, "context_scale", 1.0))
    candidates = random.uniform(-scale, scale, (CANDIDATES, model.dim or 2))
    items, size = random.permutation(CANDIDATES) - 5, model.positions
    frozen = type(model).frozen(model.settings())
    frozen.restore(model.state())
    scores = model.scores(candidates, items)
    _require("there is a finite score for each candidate", scores.shape == (CANDIDATES,) and np.isfinite(scores).all())
    _require("a snapshot has the model's scores", np.array_equal(frozen.scores(candidates, items), scores))
    _require("a snapshot has the model's θ", np.array_equal(frozen.theta, model.theta))
    rows = model.rank(candidates, size, items)
    whole = model.rank(candidates, 2 * CANDIDATES, items)
    _require("a ranking has as many rows as asked for", len(rows) == min(size, CANDIDATES))
    _require("a ranking of all has each row once", sorted(whole) == list(range(CANDIDATES)))
    if not model.draws:
        _require("a ranking is the same each time", np.array_equal(rows, model.rank(candidates, size, items)))
        _require("a short ranking begins a long one", np.array_equal(rows, whole[: len(rows)]))
        _require("a snapshot ranks as its model", np.array_equal(frozen.rank(candidates, size, items), rows))
        falls = np.diff(scores[whole]) <= 1e-9 * np.abs(scores).max(initial=1.0)
        _require("the best scores come first", falls.all())
    with _refusal("a ranking of no length"):
        model.rank(candidates, 0, items)


def _fitted(model: ClickModel, items: Ints, clicks: Floats) -> ClickModel:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of cells that no list reached
        return model.fit(items, clicks)


def _equal(attractiveness: Floats, model: ClickModel, ids: Ints) -> bool:
    return np.array_equal(attractiveness, model.attractiveness(ids))


def _chances(values: Floats, shape: tuple[int, ...]) -> bool:
    return values.shape == shape and bool(np.all((values >= 0) & (values <= 1)))


def _check_likelihood_rises(make: Callable[[], ClickModel], items: Ints, clicks: Floats) -> None:
    """More steps of EM fit no worse, but for what the prior outweighs; a model without ``iterations`` has no steps."""
    before = -np.inf
    for steps in (1, 2, 4, 8, 16, 32) if hasattr(make(), "iterations") else ():
        model: Any = make()
        model.iterations = steps
        likelihood = _fitted(model, items, clicks).log_likelihood(items, clicks)
        detail = f"{before:.6f}, then {likelihood:.6f} after {steps} steps"
        _require("the likelihood does not fall during a fit", likelihood >= before - 1e-4, detail)
        before = likelihood
