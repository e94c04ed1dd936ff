"""SDBN, DBN, CCM and DCM by EM, against a twin that follows every user who may have been: all places to leave."""

from itertools import pairwise, product

import numpy as np
import pytest

from learner.click_models import CCM, DBN, DCM, SDBN
from learner.click_models.prior import LAPLACE, Beta

pytestmark = pytest.mark.filterwarnings("ignore:.*no list reached")


class Twin:
    """One list at a time; a user is told by where reading ended and, after clicks, by why."""

    def __init__(self, kind):
        self.kind = kind

    def users(self, query, shown, clicks):
        """Yield (chance, events) of each hidden story; an event is (what, key, happened)."""
        for end in range(len(shown)):
            if any(clicks[end + 1 :]):
                continue
            for reasons in product([0, 1], repeat=end + 1):  # satisfied, or as good as it looked, after each row
                if any(why and not clicks[k] for k, why in enumerate(reasons)):
                    continue
                chance, events = 1.0, []
                for k in range(end + 1):
                    pair, last = (query, shown[k]), k == len(shown) - 1
                    a = self.attract.get(pair, 0.5)
                    chance *= a if clicks[k] else 1 - a
                    events.append(("attract", pair, clicks[k]))
                    stays, cost, more = self.goes_on(pair, k, clicks[k], reasons[k], last)
                    chance *= cost
                    if not last:
                        chance *= stays if k < end else 1 - stays
                        events += [(what, key, k < end if yes is None else yes) for what, key, yes in more]
                yield chance, events

    def goes_on(self, pair, k, clicked, why, last):
        """Return the chance to stay for this reason, the chance of the reason, and the events it stands for."""
        if self.kind == "DCM":
            if why:
                return 0.0, 0.0, []
            return (self.stay[k], 1.0, [("stay", k, None)]) if clicked else (1.0, 1.0, [])
        if self.kind == "CCM":
            if not clicked:
                return self.stay[0], 1.0, [("stay", 0, None)]
            a = self.attract.get(pair, 0.5)
            which = 2 if why else 1
            return (
                self.stay[which],
                1.0 if last and not why else 0.0 if last else a if why else 1 - a,
                [
                    ("stay", which, None),
                    ("attract", pair, why),
                ],
            )
        s = self.satisfy.get(pair, 0.5)
        if why:
            return 0.0, 0.0 if last else s, [("satisfy", pair, 1)]
        cost = 1.0 if last or not clicked else 1 - s
        events = [("satisfy", pair, 0)] if clicked else []
        return self.stay, cost, [*events, ("stay", None, None)]

    def step(self, log):
        sums = {}
        for shown, clicks, query in zip(*log, strict=True):
            users = [user for user in self.users(query, shown, clicks) if user[0] > 0]
            total = sum(chance for chance, _ in users)
            for chance, events in users:
                for what, key, yes in events:
                    so_far = sums.setdefault((what, key), [0.0, 0.0])
                    so_far[0] += chance / total * yes
                    so_far[1] += chance / total
        return sums

    def fit(self, log, counted, iterations):
        self.attract, self.satisfy, self.stay = counted
        for _ in range(iterations):
            sums = self.step(log)

            def share(what, key, sums=sums):
                yes, rows = sums.get((what, key), (0.0, 0.0))
                return (1 + yes) / (2 + rows)

            self.attract = {key: share("attract", key) for what, key in sums if what == "attract"}
            self.satisfy = {key: share("satisfy", key) for what, key in sums if what == "satisfy"}
            if self.kind == "DBN":
                self.stay = share("stay", None)
            elif self.kind != "SDBN":
                self.stay = [share("stay", k) if ("stay", k) in sums else None for k in range(len(self.stay))]
        return self


def log_of(twin, seed):
    return twin.random_log(seed, lists=25, longest=4, items=4, queries=2)


@pytest.mark.parametrize("kind", [SDBN, DBN, DCM, CCM])
def test_em_counts_every_user_who_may_have_been(twin, kind):
    log = log_of(twin, 41)
    items, queries = log[0], log[2]
    name = kind.__name__
    begin = kind(0).fit(*log)
    pairs = sorted({(query, item) for shown, query in zip(items, queries, strict=True) for item in shown})
    columns = [item for _, item in pairs], [query for query, _ in pairs]
    attract = dict(zip(pairs, begin.attractiveness(*columns), strict=True))
    satisfy = {} if kind in (DCM, CCM) else dict(zip(pairs, begin.satisfaction(*columns), strict=True))
    stay = {"DBN": "perseverance", "SDBN": "_after_none"}.get(name, "continuation")
    stay = getattr(begin, stay)
    other = Twin(name).fit(log, (attract, satisfy, stay), iterations=3)
    model = kind(3).fit(*log)
    np.testing.assert_allclose(model.attractiveness(*columns), [other.attract[pair] for pair in pairs], atol=1e-9)
    if kind in (DCM, CCM):
        told = slice(None) if kind is CCM else slice(-1)  # nothing follows the last position
        np.testing.assert_allclose(model.continuation[told], other.stay[told], atol=1e-9)
    else:
        known = [pair for pair in pairs if pair in other.satisfy]
        found = model.satisfaction([item for _, item in known], [query for query, _ in known])
        np.testing.assert_allclose(found, [other.satisfy[pair] for pair in known], atol=1e-9)
    if kind is DBN:
        assert model.perseverance == pytest.approx(other.stay, abs=1e-9)


@pytest.mark.parametrize("kind", [SDBN, DBN, CCM, DCM])
def test_em_never_makes_the_log_less_likely(twin, kind):
    log = twin.random_log(42, lists=300, longest=5)
    prior = Beta(1.0001, 1.0001)
    likelihoods = [kind(steps, prior=prior).fit(*log).log_likelihood(*log) for steps in (1, 3, 10, 40)]
    assert all(after >= before - 1e-4 for before, after in pairwise(likelihoods))


def test_dbn_users_are_found():
    random = np.random.default_rng(5)
    items = np.argsort(random.random((20_000, 5)), axis=1)
    attract, satisfy = np.array([0.6, 0.5, 0.4, 0.3, 0.2]), np.array([0.2, 0.4, 0.6, 0.8, 0.5])
    clicks, reading = np.zeros(items.shape), np.ones(len(items), dtype=bool)
    for k in range(5):
        clicked = reading & (random.random(len(items)) < attract[items[:, k]])
        clicks[:, k] = clicked
        reading &= ~(clicked & (random.random(len(items)) < satisfy[items[:, k]])) & (random.random(len(items)) < 0.85)
    model = DBN(60).fit(items, clicks)
    np.testing.assert_allclose(model.attractiveness(range(5)), attract, atol=0.03)
    np.testing.assert_allclose(model.satisfaction(range(5)), satisfy, atol=0.08)
    assert model.perseverance == pytest.approx(0.85, abs=0.02)


@pytest.mark.parametrize("kind", [SDBN, DBN, CCM])
def test_the_chances_of_all_outcomes_add_up_to_one(twin, kind):
    model = kind(5).fit(*log_of(twin, 43))
    shown, total = [0, 1, 2], 0.0
    for clicks in product([0, 1], repeat=3):
        total += np.exp(3 * model.log_likelihood([shown], [list(clicks)], [0]))
    assert total == pytest.approx(1.0)
    by_hand = [
        sum(
            np.exp((rank + 1) * model.log_likelihood([shown[: rank + 1]], [[*above, 1]], [0]))
            for above in product([0, 1], repeat=rank)
        )
        for rank in range(3)
    ]
    expected = model.perplexity_per_rank([shown], [[1, 1, 1]], [0])
    np.testing.assert_allclose(1 / np.array(by_hand), expected, rtol=1e-9)


def test_the_empirical_prior_is_that_of_the_pairs():
    random = np.random.default_rng(6)
    rows = random.integers(1, 30, 20_000).astype(float)
    clicked = random.binomial(rows.astype(int), random.beta(0.5, 4.5, 20_000)).astype(float)
    found = Beta.learned(clicked, rows)
    assert found.mean == pytest.approx(0.1, abs=0.005)
    assert found.clicked + found.other == pytest.approx(5.0, rel=0.1)
    assert Beta.learned(np.zeros(3), np.ones(3)) == LAPLACE
    with pytest.raises(ValueError, match="prior must be a Beta"):
        SDBN(prior=0.5)
