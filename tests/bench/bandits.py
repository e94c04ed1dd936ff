"""How fast the bandits learn and rank, beside plain numpy and LAPACK doing the same work in the same run.

Prints `name value unit` per line; ratios compare within the run, since absolute times differ from machine to machine.
"""

import sys
from collections.abc import Callable
from time import perf_counter

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotrs, dtrtrs
from threadpoolctl import threadpool_limits

from learner import Samples, UbmLinUcb

K = 12
RIDGE, ALPHA = 1.0, 0.3


def table() -> np.ndarray:
    positions = np.arange(1, K + 1)[:, None]
    return np.tril(0.9 / (positions - np.arange(K)).clip(1) ** 0.5)


def lists(number: int, dim: int, random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    contexts = random.normal(size=(number, K, dim))
    contexts /= np.linalg.norm(contexts, axis=2, keepdims=True)
    return contexts, (random.random((number, K)) < 0.1).astype(float)


def fastest(*works: Callable[[], object], repeats: int) -> list[float]:
    """Return the seconds of each work's fastest run; the works take turns, so that noise meets all of them."""
    best = [float("inf")] * len(works)
    for _ in range(repeats):
        for index, work in enumerate(works):
            start = perf_counter()
            work()
            best[index] = min(best[index], perf_counter() - start)
    return best


def mini_batch(dim: int, random: np.random.Generator) -> None:
    """12,000 rows at once: gather w, weigh, ZᵀZ, Zᵀr."""
    samples = Samples.from_clicks(*lists(1000, dim, random))
    model = UbmLinUcb(dim, examination=table(), alpha=ALPHA, ridge=RIDGE)
    gram, response, w = np.zeros((dim, dim)), np.zeros(dim), table()

    def plain() -> None:
        nonlocal gram, response
        z = w[samples.position - 1, samples.last_click][:, None] * samples.context
        gram += z.T @ z
        response += z.T @ samples.reward

    ours, theirs = fastest(lambda: model.learn(samples), plain, repeats=400)
    print(f"mini_batch_d{dim} {samples.rows / ours:.0f} rows/s")
    print(f"mini_batch_d{dim}_share_of_plain_float64 {theirs / ours:.2f} ratio")


def rounds(dim: int, random: np.random.Generator) -> None:
    """K rows, a new θ, the best 12 of 40 candidates; again and again."""
    number = 300
    contexts, clicks = lists(number, dim, random)
    batches = [Samples.from_clicks(contexts[[i]], clicks[[i]]) for i in range(number)]
    candidates = lists(number * 4, dim, random)[0].reshape(number, -1, dim)[:, :40].copy()
    model = UbmLinUcb(dim, examination=table(), alpha=ALPHA, ridge=RIDGE)
    gram, response, w = RIDGE * np.eye(dim), np.zeros(dim), table()

    def ours() -> None:
        for batch, choice in zip(batches, candidates, strict=True):
            model.learn(batch)
            model.rank(choice, size=K)

    def plain() -> None:
        nonlocal gram, response
        for batch, x in zip(batches, candidates, strict=True):
            z = w[batch.position - 1, batch.last_click][:, None] * batch.context
            gram += z.T @ z
            response += z.T @ batch.reward
            factor, _ = dpotrf(gram.T, lower=1)
            theta, _ = dpotrs(factor, response, lower=1)
            half, _ = dtrtrs(factor, x.T, lower=1)
            np.argsort(-(x @ theta + ALPHA * np.sqrt(np.einsum("ij,ij->j", half, half))))[:K]

    mine, theirs = fastest(ours, plain, repeats=30)
    print(f"round_d{dim} {mine / number * 1e6:.1f} µs")
    print(f"round_d{dim}_plain {theirs / number * 1e6:.1f} µs")
    print(f"round_d{dim}_times_plain {mine / theirs:.2f} ratio")


def ranking(dim: int, random: np.random.Generator, *, learned: int) -> None:
    """The best 12 of 40,000 candidates, given and held with their norms, beside one 40,000×d×d matrix product."""
    model = UbmLinUcb(dim, examination=table(), alpha=ALPHA, ridge=RIDGE)
    if learned:
        model.learn(Samples.from_clicks(*lists(learned, dim, random)))
    x = lists(40_000 // K + 1, dim, random)[0].reshape(-1, dim)[:40_000].copy()
    square = random.normal(size=(dim, dim))
    norms, same = np.linalg.norm(x, axis=1), np.eye(dim)
    ours, held, product = fastest(
        lambda: model.rank(x, size=K),
        lambda: model.rank_mapped(x, same, norms=norms, size=K),
        lambda: x @ square,
        repeats=60,
    )
    print(f"rank_40000_d{dim}_after_{learned}_lists {ours * 1e3:.2f} ms")
    print(f"rank_40000_d{dim}_after_{learned}_lists_times_product {ours / product:.2f} ratio")
    print(f"rank_40000_held_d{dim}_after_{learned}_lists_times_product {held / product:.2f} ratio")


def main() -> None:
    with threadpool_limits(1, user_api="blas"):
        for dim in (10, 56):
            random = np.random.default_rng(7)
            mini_batch(dim, random)
            rounds(dim, random)
            for learned in (0, 100, 20_000):
                ranking(dim, random, learned=learned)


if __name__ == "__main__":
    sys.exit(main())
