"""The encoder: training time, what its codes keep of the click rate, and the time to encode 40,000 candidates."""

import time

import numpy as np
from threadpoolctl import threadpool_limits

from learner.bandits import UbmLinUcb
from learner.experiments.arena import Visits, batches, compete
from learner.experiments.policies import ALPHAS, Ucb
from learner.experiments.shop import USER_COLUMNS, Taste, shop_table, visits
from learner.experiments.taobao import encoded, shop_of
from streams.offline import train_encoder

SIZE, ROUNDS, SEEDS = 6, 20_000, 5


def kept(encoder, shop, seed):
    """Return CTR_sum with codes over CTR_sum with all 56 features, each with its best α of the same seven."""
    taste = Taste.random(np.random.default_rng([seed, 0]))
    record = visits(shop, taste, np.random.default_rng([seed, 1]), lists=ROUNDS)
    users = np.broadcast_to(record.user_features[:, None], (*record.items.shape, USER_COLUMNS))
    raw = np.concatenate([users, shop.item_features[record.items]], axis=2)
    full = np.clip((raw - encoder.low) / (encoder.high - encoder.low), 0, 1) / np.sqrt(raw.shape[2])
    table, earned = shop_table()[:SIZE, :SIZE], []
    for contexts in (encoded(encoder, encoder.item_half(shop.item_features), record), full):
        asked = Visits(record.items, contexts, record.attractiveness, record.attractiveness)
        tried = {alpha: Ucb(UbmLinUcb(contexts.shape[2], examination=table, alpha=alpha)) for alpha in ALPHAS}
        done = compete(tried, batches(iter([asked]), rounds=ROUNDS), size=SIZE, examination=table, seed=seed)
        earned.append(max(each.ctr_sum for each in done.values()))
    return earned[0] / earned[1]


def main():
    shop = shop_of(40_000)
    contexts = shop.contexts(np.random.default_rng(1), 60_000)
    began, cpu = time.perf_counter(), time.process_time()
    encoder = train_encoder(contexts, user_columns=USER_COLUMNS, seed=0)
    print(f"encoder_training {time.perf_counter() - began:.1f} s")
    print(f"encoder_training_cpu {time.process_time() - cpu:.1f} s")
    print(f"encoder_file {len(encoder.to_bytes())} bytes")
    items = encoder.item_half(shop.item_features)
    user = contexts[:1, :USER_COLUMNS]
    raw = np.hstack([np.broadcast_to(user, (40_000, USER_COLUMNS)), shop.item_features])
    for name, encode in {
        "from_halves": lambda: encoder.join(encoder.user_half(user), items),
        "from_whole_contexts": lambda: encoder.encode(raw),
    }.items():
        took = []
        for _ in range(50):
            began = time.perf_counter()
            encode()
            took.append(time.perf_counter() - began)
        print(f"encode_40000_{name}_median {1e3 * np.median(took):.2f} ms")
        print(f"encode_40000_{name}_best {1e3 * min(took):.2f} ms")
    shares = [kept(encoder, shop, seed) for seed in range(SEEDS)]
    print(f"ctr_kept_mean {np.mean(shares):.4f} share")
    print(f"ctr_kept_worst {min(shares):.4f} share")


if __name__ == "__main__":
    with threadpool_limits(1):
        main()
