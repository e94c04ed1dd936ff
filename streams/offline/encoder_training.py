"""Training of an encoder: the paper's denoising autoencoder, by scikit-learn."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from learner.encoder import Encoder

LAYERS = (25, 9, 10, 25)  # the paper's, where the second, the code, has a tenth unit: here that one is a constant
SILENT = 0.01  # of the contexts a unit does not fire for at first
NOISE = 0.05  # input = 0.95 x + 0.05 U(0, 1)


class ExtraMissing(ImportError):
    """Training needs scikit-learn, which is not installed."""


def train_encoder(
    contexts: ArrayLike,
    *,
    user_columns: int,
    seed: int,
    epochs: int = 30,
    rows: int = 60_000,
    on_epoch: Callable[[float], object] | None = None,
) -> Encoder:
    """Return the encoder of ``contexts`` (n, columns), trained on at most ``rows`` of them to undo noise.

    Columns are scaled by their range, so every value lies between 0 and 1 as the noise does. The noise is drawn anew in
    each epoch; ``on_epoch`` is told the mean squared error after each. Values that are missing (NaN) become the median.
    A ReLU that never fires learns nothing, and one that fires for half of the contexts keeps half of what a linear
    learner could use: so every unit begins where it fires for nearly all of them, as a linear one does. The last number
    of a code is a constant, as long as the mean code: a linear learner needs one for the mean attractiveness, and
    otherwise bends its other features to make it up.
    """
    regressor = _regressor()
    random = np.random.default_rng(seed)
    raw = checked(contexts)
    if len(raw) > rows:
        raw = raw[random.choice(len(raw), size=rows, replace=False)]
    low, high, median = np.nanmin(raw, axis=0), np.nanmax(raw, axis=0), np.nanmedian(raw, axis=0)
    span = high - low
    x = (np.where(np.isnan(raw), median, raw) - low) * np.divide(1.0, span, out=np.zeros_like(span), where=span > 0)
    x = x.astype(np.float32)  # half the memory traffic, and what runs online

    network = regressor(hidden_layer_sizes=LAYERS, activation="relu", solver="adam", alpha=0.0, random_state=seed)
    network.partial_fit(x[:1], x[:1])  # makes the weights
    below = x
    for weights, bias in list(zip(network.coefs_, network.intercepts_, strict=True))[:-1]:
        raised = below @ weights
        bias[:] = -np.quantile(raised, SILENT, axis=0)
        below = np.maximum(raised + bias, 0)
    for _ in range(epochs):
        network.partial_fit((1 - NOISE) * x + NOISE * random.random(x.shape, dtype=np.float32), x)
        if on_epoch:
            on_epoch(2 * float(network.loss_))  # scikit-learn halves the squared error
    (first, second), (first_bias, second_bias) = network.coefs_[:2], network.intercepts_[:2]
    hidden = np.maximum(x @ first + first_bias, 0)
    norms = np.linalg.norm(np.maximum(hidden @ second + second_bias, 0), axis=1)
    if not norms.any():
        raise ArithmeticError(f"training with seed {seed} ended with a code that is always zero; try another seed")
    mean = norms.mean()
    second = np.column_stack([second, np.zeros(len(second), dtype=second.dtype)])
    second_bias = np.append(second_bias, mean)
    return Encoder(
        user_columns,
        low=low,
        high=high,
        median=median,
        first=first,
        first_bias=first_bias,
        second=second,
        second_bias=second_bias,
        norm=np.array([np.hypot(norms, mean).max()]),
    )


def train_on_pairs(
    items: ArrayLike,
    users: ArrayLike,
    *,
    seed: int,
    pairs: int = 60_000,
    epochs: int = 30,
    on_epoch: Callable[[float], object] | None = None,
) -> Encoder:
    """Return an encoder of contexts as a service makes them: a user's features, then an item's, paired at random."""
    shown, known = np.asarray(items), np.asarray(users)
    random = np.random.default_rng(seed)
    met = known[random.integers(len(known), size=pairs)], shown[random.integers(len(shown), size=pairs)]
    return train_encoder(
        np.hstack(met), user_columns=known.shape[1], seed=seed, epochs=epochs, rows=pairs, on_epoch=on_epoch
    )


def _regressor() -> Any:
    """Return scikit-learn's class of networks; it is imported here, as nothing else of Glimpse needs it."""
    try:
        return import_module("sklearn.neural_network").MLPRegressor
    except ModuleNotFoundError as error:
        words = "this needs scikit-learn; install it, in Glimpse's folder: pip install '.[science]'"
        raise ExtraMissing(words) from error


def checked(contexts: ArrayLike) -> NDArray[np.float32]:
    """Return contexts as float32 rows, or say why nothing can be learned from them."""
    raw = np.asarray(contexts, dtype=np.float32)
    if raw.ndim != 2 or not len(raw):
        raise ValueError(f"contexts must be rows of features, at least one; got shape {raw.shape}")
    if np.isinf(raw).any():
        row, column = (int(index) for index in np.argwhere(np.isinf(raw))[0])
        raise ValueError(f"contexts[{row}, {column}] is {raw[row, column]}; features are finite, NaN where missing")
    empty = np.flatnonzero(np.isnan(raw).all(axis=0))
    if len(empty):
        raise ValueError(f"column {empty[0]} of contexts has no value at all; leave it out")
    return raw
