"""What drawn lists tell of another policy, from the ranking service's choice through the join to evaluate."""

import numpy as np

from learner import Samples
from learner.simulate import Users
from streams.embedded.job import Embedded
from streams.events import click_of, impression_of
from streams.logs import Archive, ArchiveSource
from streams.offline import ListChoice, read_own_logs
from streams.offline.judge import judge
from streams.offline.policy import replay
from streams.parameters import take_snapshot
from streams.rank.choice import choose
from streams.rank.requests import RankRequest
from streams.settings import Bucket, Settings

K, DIM, CANDIDATES, LISTS = 2, 3, 4, 2000
TABLE = np.array([[1.0, 0.0], [0.5, 0.9]])
USERS = Users(np.array([0.4, 0.35, 0.0]), TABLE)
DRAWN = Bucket("drawn", "c2ucb", DIM, K, alpha=0.0, policy="plackett-luce", temperature=0.3)


def contexts(random):
    """Candidates as one user meets them: vectors differ from visit to visit."""
    return np.column_stack([np.ones(CANDIDATES), random.uniform(-1, 1, (CANDIDATES, DIM - 1))]).astype(np.float32)


def test_ips_with_logged_chances_tells_what_another_policy_would_earn(tmp_path):
    random = np.random.default_rng(11)
    settings = Settings(buckets={"drawn": DRAWN}, wait_s=30.0, lateness_s=600.0, partitions=1)
    model = DRAWN.model()  # knows nothing: its lists are drawn alike
    other = Bucket("other", "c2ucb", DIM, K, alpha=0.0, ridge=1.0)
    wise = other.model()
    true = []
    with Embedded(tmp_path, settings) as loop:
        for number in range(LISTS + 3):
            vectors, items = contexts(random), np.arange(CANDIDATES)
            ids = {"impression_id": f"i{number}", "session_id": f"s{number}"}
            request = RankRequest("u", items=items, contexts=vectors.astype(np.float64))
            shown = choose(request, DRAWN, model, None, impression_id=ids["impression_id"])
            at_ms = 100 * (number + 1) + (0 if number < LISTS else 10_000_000)  # the last ones only move the clocks
            event = impression_of(
                shown.items,
                shown.contexts,
                bucket="drawn",
                user_id="u",
                shown_at_ms=at_ms,
                propensities=shown.propensities,
                candidate_items=shown.candidates.items,
                candidate_contexts=shown.candidates.contexts,
                **ids,
            )
            clicked = np.flatnonzero(USERS.browse(shown.contexts[None], random)[0]) + 1
            clicks = [click_of(position=int(position), clicked_at_ms=at_ms, **ids) for position in clicked]
            loop.append([event, *clicks], at_ms=at_ms)
            if number < LISTS:
                best = vectors[np.argsort(-(vectors @ USERS.taste), kind="stable")[:K]]
                true.append(float(USERS.expected_clicks(best[None].astype(np.float64))[0]))
        loop.step(at_ms + 1_000_000)
    seen = np.array([contexts(random)[:K] for _ in range(500)])
    wise.learn(Samples.from_clicks(seen, seen @ USERS.taste))
    snapshot = take_snapshot(wise, other, samples_offset=1, topic_id="t", partition=0, published_at_ms=1)
    source = ArchiveSource(Archive.open(tmp_path))
    logs, _ = read_own_logs(source, settings, ListChoice(candidates=True, to_ms=100 * (LISTS + 1)))
    assert len(logs) == LISTS
    assert logs.propensities is not None
    found = judge(logs, replay(logs, snapshot), estimator="ips").estimates[0]
    assert found.propensities == "from the log"
    assert abs(found.value - np.mean(true)) < 3 * found.standard_error
    assert np.mean(true) - logs.clicks.sum(axis=1).mean() > 2.5 * found.standard_error  # the log itself earned less
