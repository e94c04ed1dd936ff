"""Fit, then learn, as a user does it: a log to a file, `glimpse fit` to a table, the table to a bucket."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from typer.testing import CliRunner

from learner import Samples, UbmLinUcb
from learner.bandits import Bandit
from learner.experiments.arena import Visits, batches, compete
from learner.experiments.day_one import DayOne, OldLog
from learner.experiments.policies import Ucb
from learner.experiments.shop import POSITIONS, Shop, Taste, shop_table, visits
from learner.experiments.taobao import shop_of
from learner.simulate import unit
from streams.commands.main import cli
from streams.settings import Bucket, read_examination

CANDIDATES, PART, SHOP_DIM = 40, 4000, 7


def fitted(items: NDArray, clicks: NDArray, folder: Path) -> NDArray:
    """Return the table that `glimpse fit` writes for these lists."""
    log, table = folder / "lists.jsonl", folder / "table.json"
    lines = zip(items.tolist(), clicks.astype(int).tolist(), strict=True)
    log.write_text("".join(json.dumps({"items": shown, "clicks": clicked}) + "\n" for shown, clicked in lines))
    done = CliRunner().invoke(cli, ["fit", str(log), "--out", str(table)])
    assert done.exit_code == 0, done.output
    return read_examination(table)


def day_one_lifts(seed: int, folder: Path, *, lists: int = 20_000) -> dict[str, float]:
    """Return what each table gains over C²UCB, learned from an old ranker's log."""

    class WithTables(DayOne):
        """Day one with two learners more."""

        def taught(self, log: OldLog, examination: NDArray, seed: int, *, wrong: bool) -> dict[str, Bandit]:
            models = super().taught(log, examination, seed, wrong=wrong)
            tables = {"by glimpse fit": fitted(log.items, log.clicks, folder), "ones": np.tri(log.items.shape[1])}
            for name, table in tables.items():
                models[name] = UbmLinUcb(log.contexts.shape[2], examination=table, alpha=0.0)
                models[name].learn(Samples.from_clicks(log.contexts, log.clicks, log.items))
            return models

    served = WithTables(lists=lists).play(seed)
    base = served["c2ucb"].ctr_sum
    return {name: served[name].ctr_sum / base - 1 for name in ("ubm, w known", "by glimpse fit", "ones")}


def shop_lift(seed: int, folder: Path, *, lists: int, rounds: int, items: int = 40_000) -> float:
    """Return what UBM-LinUCB with the table fitted to a log of the shop earns more than C²UCB there, as a share."""
    shop, taste = shop_of(items), Taste.random(np.random.default_rng([seed, 0]))
    log = visits(shop, taste, np.random.default_rng([seed, 1]), lists=lists)
    table = fitted(log.items, log.clicks, folder)
    buckets = {
        "ubm": Bucket("ubm", "ubm-linucb", dim=SHOP_DIM, positions=POSITIONS, examination=table, alpha=0.1),
        "c2ucb": Bucket("c2ucb", "c2ucb", dim=SHOP_DIM, positions=POSITIONS, alpha=0.1),
    }
    earned = compete(
        {name: Ucb(bucket.model()) for name, bucket in buckets.items()},
        batches(shoppers(shop, taste, np.random.default_rng([seed, 2])), rounds=rounds),
        size=POSITIONS,
        examination=shop_table(),
        seed=seed,
    )
    return earned["ubm"].ctr_sum / earned["c2ucb"].ctr_sum - 1


def shoppers(shop: Shop, taste: Taste, random: np.random.Generator) -> Iterator[Visits]:
    """Yield visits whose contexts are the traits themselves, in which attraction is linear."""
    while True:
        record = visits(shop, taste, random, lists=PART, candidates=CANDIDATES)
        users = unit(random.normal(size=(PART, 2)))
        gamma = taste.attractiveness(shop.item_traits[record.items], users)
        constant = np.ones((*record.items.shape, 1))
        mine = np.broadcast_to(users[:, None], (*record.items.shape, 2))
        contexts = np.concatenate([constant, shop.item_traits[record.items], mine], axis=2) / np.sqrt(3)
        yield Visits(record.items, contexts, gamma, gamma).shuffled(random)
