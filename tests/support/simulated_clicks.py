"""Logs of users who browse by each of the click models, and which models may be told for them."""

import numpy as np

from learner.simulate import answer, browsing_table
from streams.offline.logs import Logs

POSITIONS, ITEMS, QUERIES = 6, 12, 40
SPECIAL_CASES = {  # the models that can be the true one, with the right numbers
    "ubm": {"ubm"},
    "pbm": {"pbm", "ubm"},
    "cm": {"cm", "dcm", "sdbn", "dbn", "ccm", "ubm"},
    "dcm": {"dcm"},
    "sdbn": {"sdbn", "dbn"},
}


def browsed_log(model, seed, *, lists=12_000):
    """A log of lists whose clicks are drawn by ``model``."""
    random = np.random.default_rng([seed, sorted(SPECIAL_CASES).index(model)])
    queries = random.integers(QUERIES, size=lists)
    items = np.argsort(random.random((lists, ITEMS)), axis=1)[:, :POSITIONS]
    gamma = random.beta(1.5, 4.0, size=(QUERIES, ITEMS))[queries[:, None], items]
    table, stays = np.tri(POSITIONS), None
    if model == "ubm":
        table = browsing_table(POSITIONS)
    elif model == "pbm":
        table = np.tril(np.tile(0.95 * np.arange(1, POSITIONS + 1)[:, None] ** -0.7, POSITIONS))
    elif model == "cm":
        table = np.eye(1, POSITIONS)[[0] * POSITIONS]
    elif model == "dcm":
        stays = np.linspace(0.8, 0.3, POSITIONS)
    else:
        stays = 1 - random.beta(2.0, 2.0, size=(QUERIES, ITEMS))[queries[:, None], items]
    clicks = answer(gamma, table, random, stays).clicks
    return Logs(
        name=f"{model} users",
        lines=np.arange(1, lists + 1),
        items=items,
        item_ids=[str(item) for item in range(ITEMS)],
        clicks=clicks,
        sizes=np.full(lists, POSITIONS),
        queries=queries,
        query_ids=[str(query) for query in range(QUERIES)],
        sessions=None,
        contexts=None,
        propensities=None,
        position_propensities=None,
    )


def is_right(model, tied):
    """Whether the truth was named, beside at most one other that is not the truth in another form."""
    return model in tied and len(set(tied) - SPECIAL_CASES[model]) <= 1
