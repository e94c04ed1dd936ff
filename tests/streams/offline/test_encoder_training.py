"""Training the paper's autoencoder: codes of ten numbers that rank as well as 56 features do."""

import sys

import numpy as np
import pytest

from learner.bandits import UbmLinUcb
from learner.experiments.arena import Visits, batches, compete
from learner.experiments.policies import Ucb
from learner.experiments.shop import USER_COLUMNS, Taste, shop_table, visits
from learner.experiments.taobao import encoded, shop_of
from streams.offline import train_encoder
from streams.offline.encoder_training import ExtraMissing

SIZE, ROUNDS = 6, 8000


@pytest.fixture(scope="module")
def shop():
    return shop_of(5000)


@pytest.fixture(scope="module")
def encoder(shop):
    contexts = shop.contexts(np.random.default_rng(1), 60_000)
    return train_encoder(contexts, user_columns=USER_COLUMNS, seed=0, epochs=24)


def test_codes_keep_95_percent_of_the_clicks_that_full_features_earn(shop, encoder, record_property):
    shares = []
    for seed in range(4):  # tastes; that a code has no place for one of them is what goes wrong
        taste = Taste.random(np.random.default_rng([seed, 0]))
        record = visits(shop, taste, np.random.default_rng([seed, 1]), lists=ROUNDS)
        users = np.broadcast_to(record.user_features[:, None], (*record.items.shape, USER_COLUMNS))
        raw = np.concatenate([users, shop.item_features[record.items]], axis=2)
        full = np.clip((raw - encoder.low) / (encoder.high - encoder.low), 0, 1) / np.sqrt(raw.shape[2])
        earned = {}
        for name, contexts in {
            "codes": encoded(encoder, encoder.item_half(shop.item_features), record),
            "full": full,
        }.items():
            asked = Visits(record.items, contexts, record.attractiveness, record.attractiveness)
            table = shop_table()[:SIZE, :SIZE]
            tried = {a: Ucb(UbmLinUcb(contexts.shape[2], examination=table, alpha=a)) for a in (0.03, 0.1, 0.3)}
            done = compete(tried, batches(iter([asked]), rounds=ROUNDS), size=SIZE, examination=table, seed=seed)
            earned[name] = max(each.ctr_sum for each in done.values())  # the same search for both
        shares.append(earned["codes"] / earned["full"])
    record_property("share_of_ctr_kept", [float(share) for share in shares])
    assert min(shares) >= 0.95, shares


def test_a_code_has_the_constant_that_a_linear_learner_needs(shop, encoder):
    codes = encoder.encode(shop.contexts(np.random.default_rng(9), 2000)).values.astype(np.float64)
    assert codes.shape == (2000, 10)
    assert codes[:, -1].std() < 1e-6 < 0.1 < codes[:, -1].min()
    assert (codes.std(axis=0) > 1e-3).sum() >= 6  # the shop has as many hidden traits
    ones = np.ones(len(codes))
    found = codes @ np.linalg.lstsq(codes, ones, rcond=None)[0]
    np.testing.assert_allclose(found, ones, atol=1e-6)


def test_training_lowers_the_error_and_is_seeded(shop):
    contexts = shop.contexts(np.random.default_rng(2), 3000)
    errors = []
    options = {"user_columns": USER_COLUMNS, "seed": 3, "epochs": 6}
    once = train_encoder(contexts, on_epoch=errors.append, **options)
    assert len(errors) == 6
    assert errors[-1] < errors[0]
    assert once.to_bytes() == train_encoder(contexts, **options).to_bytes()
    assert np.linalg.norm(once.encode(contexts).values, axis=1).max() == pytest.approx(1.0, abs=1e-4)


def test_missing_values_are_the_median_and_hopeless_contexts_are_refused(shop):
    contexts = shop.contexts(np.random.default_rng(2), 500)
    contexts[::7, 4] = np.nan
    model = train_encoder(contexts, user_columns=USER_COLUMNS, seed=0, epochs=1)
    assert model.median[4] == np.nanmedian(contexts[:, 4])
    for bad, said in (
        (np.zeros((0, 3)), "at least one"),
        (np.full((5, 2), np.nan), "column 0 of contexts has no value"),
        (np.array([[1.0, np.inf]]), r"contexts\[0, 1\] is inf"),
    ):
        with pytest.raises(ValueError, match=said):
            train_encoder(bad, user_columns=1, seed=0)


def test_a_missing_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.neural_network", None)  # as if it were not installed
    with pytest.raises(ExtraMissing, match=r"needs scikit-learn; .*folder: pip install '\.\[science\]'"):
        train_encoder(np.ones((5, 2)), user_columns=1, seed=0)
