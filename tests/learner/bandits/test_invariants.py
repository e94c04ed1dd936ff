"""What holds for every algorithm, bit by bit, on arbitrary lists."""

import warnings
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from threadpoolctl import threadpool_limits

from learner import ALGORITHMS, C2Ucb, CmLinUcb, DcmLinUcb, PbmUcb, RandomLists, Samples, UbmLinUcb
from learner.checks import check_bandit

settings.register_profile("invariants", deadline=None, max_examples=50)
settings.load_profile("invariants")

K, DIM = 5, 3
TABLE = np.tril(np.random.default_rng(0).random((K, K)))


def ubm(**options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the random table grows with k′ no more than real ones do
        return UbmLinUcb(dim=DIM, examination=TABLE, **options)


MODELS = {
    "ubm-linucb": ubm,
    "c2ucb": lambda **options: C2Ucb(dim=DIM, positions=K, **options),
    "cm-linucb": lambda **options: CmLinUcb(dim=DIM, positions=K, **options),
    "dcm-linucb": lambda **options: DcmLinUcb(dim=DIM, positions=K, **options),
    "pbm-ucb": lambda **options: PbmUcb(examination=TABLE[:, 0], **options),
    "random": lambda reward_scale=1.0, **_: RandomLists(positions=K, reward_scale=reward_scale),
}
every_model = pytest.mark.parametrize("new_model", MODELS.values(), ids=MODELS)
every_linear_model = pytest.mark.parametrize("new_model", list(MODELS.values())[:4], ids=list(MODELS)[:4])


@st.composite
def batches(draw):
    """Lists of different size with arbitrary contexts within the scale, float32 or float64."""
    lists = draw(st.integers(1, 6))
    dtype, width = draw(st.sampled_from([(np.float32, 32), (np.float64, 64)]))
    contexts = draw(hnp.arrays(dtype, (lists, K, DIM), elements=st.floats(-1, 1, width=width)))
    rewards = draw(hnp.arrays(np.float64, (lists, K), elements=st.sampled_from([0.0, 0.0, 1.0, 0.3])))
    items = draw(hnp.arrays(np.int64, (lists, K), elements=st.integers(-3, 3)))
    sizes = draw(hnp.arrays(np.int64, lists, elements=st.integers(0, K)))
    return Samples.from_clicks(contexts, rewards, items, sizes=sizes)


def taught(new_model, *batches):
    model = new_model()
    for batch in batches:
        model.learn(batch)
    return model


def test_the_table_of_algorithms_names_all_six():
    assert list(ALGORITHMS) == list(MODELS)
    assert [MODELS[name]().name for name in MODELS] == list(MODELS)


@every_model
@given(seed=st.integers(0, 2**32 - 1))
def test_algorithms_keep_their_promises(new_model, seed):
    check_bandit(new_model, seed=seed)


@every_linear_model
@given(samples=batches())
def test_the_gram_matrix_stays_symmetric_and_positive_definite(new_model, samples):
    model = taught(new_model, samples)
    assert np.array_equal(model.gram, model.gram.T)
    assert np.linalg.eigvalsh(model.gram).min() >= model.ridge * (1 - 1e-9)


@every_linear_model
@given(samples=batches())
def test_the_sums_are_those_of_a_slow_and_obvious_twin(new_model, samples):
    model = taught(new_model, samples)
    gram = [[0] * DIM for _ in range(DIM)]
    response = [0] * DIM
    end = 0
    for size in samples.size:
        start, end = end, end + int(size)
        clicked = [k for k in range(start, end) if samples.reward[k] > 0]
        for row in range(start, end):
            weight = twin_weight(model.name, row, clicked, samples)
            if weight is None:
                continue
            z = [round(2**16 * (weight * float(value))) for value in samples.context[row]]
            reward = round(2**16 * float(samples.reward[row]))
            for i in range(DIM):
                response[i] += z[i] * reward
                for j in range(DIM):
                    gram[i][j] += z[i] * z[j]
    state = model.state()
    whole = [int(high) * 2**40 + int(low) for low, high in zip(state["gram_low"], state["gram_high"], strict=True)]
    assert whole == [gram[i][j] for i in range(DIM) for j in range(i, DIM)]
    whole = [int(h) * 2**40 + int(lo) for lo, h in zip(state["response_low"], state["response_high"], strict=True)]
    assert whole == response
    assert model.rounds == len(samples)


def twin_weight(name, row, clicked, samples):
    """The weight of a row, or None where the algorithm does not learn from it."""
    if name == "ubm-linucb":
        above = [samples.position[k] for k in clicked if k < row]
        return float(TABLE[samples.position[row] - 1, max(above, default=0)])
    if name == "cm-linucb" and clicked and row > min(clicked):
        return None
    if name == "dcm-linucb" and clicked and row > max(clicked):
        return None
    return 1.0


@given(samples=batches())
def test_dcm_counts_clicks_and_last_clicks_per_position(samples):
    model = taught(MODELS["dcm-linucb"], samples)
    clicks, last = np.zeros(K, dtype=int), np.zeros(K, dtype=int)
    end = 0
    for size in samples.size:
        start, end = end, end + int(size)
        positions = [samples.position[k] - 1 for k in range(start, end) if samples.reward[k] > 0]
        for position in positions:
            clicks[position] += 1
        if positions:
            last[positions[-1]] += 1
    assert model.clicks.tolist() == clicks.tolist()
    assert model.terminations.tolist() == last.tolist()


@given(samples=batches())
def test_pbm_keeps_the_sums_of_its_twin_and_the_bound_of_its_paper(samples):
    model = taught(MODELS["pbm-ucb"], samples)
    shown, seen, clicked = {}, {}, {}
    for item, position, reward in zip(samples.item, samples.position, samples.reward, strict=True):
        shown[item] = shown.get(item, 0) + 1
        seen[item] = seen.get(item, 0) + round(2**16 * TABLE[position - 1, 0]) / 2**16
        clicked[item] = clicked.get(item, 0) + round(2**16 * reward) / 2**16
    assert model.items.tolist() == sorted(shown)
    candidates = [*sorted(shown), 99]
    upper = {item: float("inf") for item in candidates}
    for item in shown:
        delta = np.log(model.rounds + 1)
        upper[item] = clicked[item] / seen[item] + np.sqrt(shown[item] / seen[item]) * np.sqrt(delta / (2 * seen[item]))
    ranked = [candidates[row] for row in model.rank(items=candidates, size=len(candidates))]
    assert ranked[0] == 99
    assert all(upper[a] >= upper[b] - 1e-12 for a, b in pairwise(ranked))


@given(samples=batches())
def test_ubm_with_full_examination_is_c2ucb(samples):
    full = UbmLinUcb(dim=DIM, examination=np.ones((K, K)))
    plain = C2Ucb(dim=DIM, positions=K)
    for model in (full, plain):
        model.learn(samples)
    assert full.theta.tobytes() == plain.theta.tobytes()
    assert full.gram.tobytes() == plain.gram.tobytes()
    assert full.alpha == plain.alpha


@pytest.mark.parametrize("dim", [10, 56])
def test_one_or_two_blas_threads_give_the_same_bits(dim):
    random = np.random.default_rng(1)
    contexts = random.uniform(-1, 1, (3000, 12, dim)).astype(np.float32)
    samples = Samples.from_clicks(contexts, random.random((3000, 12)) < 0.1)
    hashes = set()
    for threads in (1, 2):
        with threadpool_limits(threads, user_api="blas"):
            model = UbmLinUcb(dim=dim, examination=np.tril(np.full((12, 12), 0.7)))
            model.learn(samples)
            hashes.add(model.sha256())
    assert len(hashes) == 1


@every_linear_model
def test_scaled_contexts_and_rewards_equal_scaling_by_hand(new_model):
    random = np.random.default_rng(2)
    contexts, rewards = random.uniform(-8, 8, (50, K, DIM)), random.integers(0, 4, (50, K)) * 1.0
    scaled = new_model(context_scale=8.0, reward_scale=4.0)
    scaled.learn(Samples.from_clicks(contexts, rewards))
    plain = taught(new_model, Samples.from_clicks(contexts / 8, rewards / 4))
    assert scaled.theta.tobytes() == plain.theta.tobytes()
    assert np.array_equal(scaled.rank(contexts[0], size=K), plain.rank(contexts[0] / 8, size=K))
    with pytest.raises(ValueError, match=r"context\[0, 0\] is 9.0; features lie within context_scale ±8.0"):
        scaled.learn(Samples.from_clicks(np.full((1, 1, DIM), 9.0), [[1]]))
