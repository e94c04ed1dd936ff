"""Lists drawn from scores, whose known chances make the log of one policy tell what another would earn."""

from itertools import permutations

import numpy as np
import pytest
from list_propensities import propensities

from learner.evaluate import LoggedLists, Policy, ips
from learner.plackett_luce import draw_list, random_of
from learner.simulate import Users

SCORES = np.array([0.30, 0.12, 0.25, 0.05, 0.18])
CHOICES = {"all": 0, "a shortlist": 3}


def chance_by_hand(scores, rows, temperature):
    """The chance of a list, position by position, as the definition has it."""
    worth = np.exp(np.asarray(scores) / temperature)
    left, chance = list(range(len(worth))), []
    for row in rows:
        chance.append(worth[row] / worth[left].sum())
        left.remove(row)
    return np.array(chance)


def test_chances_are_those_of_the_definition():
    for rows in permutations(range(5), 3):
        drawn_with = propensities(SCORES, np.array(rows), temperature=0.1)
        np.testing.assert_allclose(drawn_with, chance_by_hand(SCORES, rows, 0.1), rtol=1e-12)


@pytest.mark.parametrize("shortlist", CHOICES.values(), ids=CHOICES)
def test_lists_are_drawn_as_often_as_their_chances_say(shortlist):
    draws = 20_000
    random = np.random.default_rng(3)
    counts = {}
    for _ in range(draws):
        drawn = draw_list(SCORES, 2, temperature=0.1, random=random, shortlist=shortlist)
        count, chance = counts.get(tuple(drawn.rows), (0, 0.0))
        counts[tuple(drawn.rows)] = (count + 1, drawn.propensities.prod())
    assert len(counts) == (6 if shortlist else 20)
    assert sum(chance for _, chance in counts.values()) == pytest.approx(1.0)
    for count, chance in counts.values():
        assert count / draws == pytest.approx(chance, abs=5 * np.sqrt(chance / draws))


def test_scores_far_apart_neither_overflow_nor_vanish():
    scores = np.array([0.0, -1e5, -1e6, -1e6 - 1e-4])
    drawn = draw_list(scores, 4, temperature=1e-4, random=random_of("x"))
    assert drawn.rows[:2].tolist() == [0, 1]
    np.testing.assert_allclose(drawn.propensities[[0, 1, 3]], 1.0)
    assert drawn.propensities[2] == pytest.approx(1 / (1 + np.exp(-1.0 if drawn.rows[2] == 2 else 1.0)), rel=1e-5)


def test_a_list_can_be_drawn_again_from_its_id():
    first, again, other = (draw_list(np.zeros(50), 12, temperature=1, random=random_of(n)) for n in ("a", "a", "b"))
    assert first.rows.tolist() == again.rows.tolist() != other.rows.tolist()
    assert len(set(first.rows.tolist())) == 12
    np.testing.assert_allclose(first.propensities, 1 / np.arange(50, 38, -1))


def test_lists_longer_than_the_candidates_are_cut():
    assert len(draw_list(SCORES, 12, temperature=0.1, random=random_of("x")).rows) == 5


def test_what_cannot_be_drawn_is_refused():
    with pytest.raises(ValueError, match="a shortlist of 2 cannot fill a list of 3"):
        draw_list(SCORES, 3, temperature=0.1, random=random_of("x"), shortlist=2)
    with pytest.raises(ValueError, match="row 3 is not among the 2 best"):
        propensities(SCORES, np.array([0, 3]), temperature=0.1, shortlist=2)
    with pytest.raises(ValueError, match="temperature must be above 0"):
        draw_list(SCORES, 3, temperature=0.0, random=random_of("x"))


def drawn_log(scores, temperature, lists, random):
    """A log of users who browse by UBM, with the chances as an impression carries them."""
    users = Users(np.array([0.8]), np.array([[1.0, 0.0, 0.0], [0.6, 0.9, 0.0], [0.4, 0.5, 0.9]]))
    drawn = [draw_list(scores, 3, temperature=temperature, random=random) for _ in range(lists)]
    items = np.array([each.rows for each in drawn])
    clicks = users.browse(ATTRACTION[items][:, :, None], random)
    chances = np.array([each.propensities for each in drawn], dtype=np.float32)
    return users, LoggedLists.of(items, clicks, chances=chances)


ATTRACTION = np.array([0.9, 0.2, 0.3, 0.7, 0.5])  # not what the logging policy believes
LOGGING = {"plackett-luce, CTR_sum": (SCORES, 0.15, "sum"), "by lot, CTR_set": (np.zeros(5), 1.0, "set")}


@pytest.mark.parametrize("scores, temperature, metric", LOGGING.values(), ids=LOGGING)
def test_ips_on_a_drawn_log_is_unbiased_for_another_policy(scores, temperature, metric):
    lists = np.array(list(permutations(range(5), 3)))
    chance = np.array([chance_by_hand(ATTRACTION, rows, 0.3).prod() for rows in lists])
    policy = Policy.of(lists, contexts=np.zeros(len(lists), dtype=np.int64), chances=chance)
    random = np.random.default_rng(7)
    found, naive = [], []
    for _ in range(1000):
        users, log = drawn_log(scores, temperature, 60, random)
        found.append(ips(log, policy, metric=metric).value)
        naive.append((log.rewards if metric == "sum" else log.first_rewards).sum(axis=1).mean())
    contexts = ATTRACTION[lists][:, :, None]
    true = float(chance @ (users.expected_clicks(contexts) if metric == "sum" else users.expected_reward(contexts)))
    error = np.std(found) / np.sqrt(len(found))
    assert abs(np.mean(found) - true) < 3.5 * error
    assert abs(np.mean(naive) - true) > 10 * error  # what the log itself earned is something else
