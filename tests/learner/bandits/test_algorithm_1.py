"""The paper's Algorithm 1, two rounds by hand in exact fractions, beside UbmLinUcb."""

import math
from fractions import Fraction

import numpy as np

from learner import Samples, UbmLinUcb

H, Q = Fraction(1, 2), Fraction(1, 4)
W = [[1, 0, 0], [H, 1, 0], [Q, H, 1]]  # w[k − 1][k′]: grows with k′ as the paper assumes
CANDIDATES = [[(1, 0), (0, 1), (H, H), (-H, Q)], [(H, 0), (0, 1), (Q, -H), (H, H)]]
CLICKS = [[0, 1, 0], [1, 0, 1]]
K, D = 3, 2
PHI = 1 + 1 + 1
RIDGE, BETA = Fraction(PHI), Fraction(D)


def solve(gram, vector):
    (a, b), (c, d) = gram
    determinant = a * d - b * c
    return [(d * vector[0] - b * vector[1]) / determinant, (a * vector[1] - c * vector[0]) / determinant]


def by_hand():
    """Yield, before each round's update, θ, the widths, α and the order of the candidates; then learn."""
    gram, response = [[RIDGE, Fraction(0)], [Fraction(0), RIDGE]], [Fraction(0), Fraction(0)]
    for t, (candidates, clicks) in enumerate(zip(CANDIDATES, CLICKS, strict=True), start=1):
        theta = solve(gram, response)
        alpha = math.sqrt(D * math.log(1 + PHI * t / (D * RIDGE)) + 2 * math.log(t * K)) + math.sqrt(RIDGE * BETA)
        widths, scores = [], []
        for x in candidates:
            inverse = solve(gram, x)
            widths.append(math.sqrt(x[0] * inverse[0] + x[1] * inverse[1]))
            scores.append(float(theta[0] * x[0] + theta[1] * x[1]) + alpha * widths[-1])
        order = sorted(range(len(candidates)), key=lambda row: (-scores[row], row))[:K]
        yield theta, widths, alpha, order, gram, response
        last = 0
        for k, (row, click) in enumerate(zip(order, clicks, strict=True), start=1):
            w, x = W[k - 1][last], candidates[row]
            gram = [[gram[i][j] + w * w * x[i] * x[j] for j in range(D)] for i in range(D)]
            response = [response[i] + w * click * x[i] for i in range(D)]
            last = k if click else last
    yield solve(gram, response), [], 0.0, [], gram, response


def test_two_rounds_equal_the_fractions():
    model = UbmLinUcb(dim=D, examination=np.array(W, dtype=float))
    rounds = list(by_hand())
    assert model.phi == PHI
    assert model.ridge == RIDGE
    for (theta, widths, alpha, order, gram, response), candidates, clicks in zip(
        rounds[:2], CANDIDATES, CLICKS, strict=True
    ):
        x = np.array(candidates, dtype=float)
        np.testing.assert_allclose(model.theta, np.array(theta, dtype=float), rtol=0, atol=1e-12)
        np.testing.assert_allclose(model.widths(x), widths, rtol=0, atol=1e-12)
        np.testing.assert_allclose(model.gram, np.array(gram, dtype=float), rtol=0, atol=1e-12)
        np.testing.assert_allclose(model.response, np.array(response, dtype=float), rtol=0, atol=1e-12)
        assert abs(model.alpha - alpha) <= 1e-12
        rows = model.rank(x, size=K)
        assert rows.tolist() == order
        model.learn(Samples.from_clicks(x[rows][None], np.array([clicks])))
    np.testing.assert_allclose(model.theta, np.array(rounds[2][0], dtype=float), rtol=0, atol=1e-12)
    assert model.rounds == 2


def test_the_order_of_the_second_round_was_learned():
    """The example is no accident of row order: the two rounds rank differently."""
    first, second, _ = by_hand()
    assert first[3] != second[3]


def test_random_floats_stay_close_to_plain_float64():
    random = np.random.default_rng(3)
    lists, size, dim = 400, 12, 20
    w = np.tril(random.random((size, size)))
    contexts = random.uniform(-1, 1, (lists, size, dim))
    clicks = (random.random((lists, size)) < 0.2).astype(float)
    samples = Samples.from_clicks(contexts, clicks)
    model = UbmLinUcb(dim=dim, examination=w, ridge="safe")
    model.learn(samples)
    z = w[samples.position - 1, samples.last_click][:, None] * samples.context
    gram = z.T @ z + model.ridge * np.eye(dim)
    assert np.abs(model.gram - gram).max() <= 1e-5 * np.abs(gram).max()
    assert np.abs(model.theta - np.linalg.solve(gram, z.T @ samples.reward)).max() <= 1e-5
