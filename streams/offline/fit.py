"""The work behind `glimpse fit`: an examination table and the click model that fits best."""

from __future__ import annotations

import warnings
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypedDict

import numpy as np
from numpy.typing import NDArray

from learner.browsing import steepness
from learner.click_models import CLICK_MODELS, ClickModel
from learner.click_models.baselines import Constant, PositionOnly
from learner.click_models.log import settled_positions
from streams.offline.logs import LogError, Logs

BASELINES: Final[dict[str, Callable[[], ClickModel]]] = {"constant": Constant, "position-only": PositionOnly}
CLOSE: Final = 2.0  # standard errors of a difference that could be chance
WELL_OBSERVED: Final = 100  # rows
FOLDS: Final = 5  # every fifth session is held out
PARTS: Final = 20  # of the held-out lists, to see how far their verdicts differ


class FitColumns(TypedDict):
    """Lists as a click model takes them."""

    items: NDArray[np.int64]
    clicks: NDArray[np.float64]
    queries: NDArray[np.int64] | None
    sizes: NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class ModelScore:
    """How well a model foretells lists that it did not learn from."""

    perplexity: NDArray[np.float64]  # per rank: 1 is a prophet, 2 a coin
    conditional_perplexity: float  # the clicks above being known, mean over ranks
    log_likelihood: float  # of a row, the clicks above being known; higher is better
    behind: float  # log-likelihood below the best model's …
    behind_error: float  # … and its standard error


@dataclass(frozen=True, slots=True)
class Fit:
    """A table to learn with, and how the models compare."""

    model: str
    examination: NDArray[np.float64]
    observations: NDArray[np.int64]
    factor: float  # what every cell was divided by, so that the largest well-observed one is 1
    scores: dict[str, ModelScore]  # of the models and the baselines
    tied: list[str]  # the models that could be the best one, simplest first
    trained_on: int  # lists, when the models were compared; the table is learned from all
    judged_on: int
    notes: list[str]
    steepness: float  # the power of the depth by which w falls
    level: float  # clicks per row that was examined: the mean γ that goes with the table
    settled: float  # the share of an item's place that the item decides; NaN if none comes twice

    @property
    def recommended(self) -> str:
        """The simplest of the models that could be the best one."""
        return self.tied[0]


def fit(logs: Logs, *, model: str = "ubm", held_out: Logs | None = None) -> Fit:
    """Return the table of ``model`` from all of ``logs``, and all models judged on lists that they did not see.

    Without ``held_out`` every fifth session is kept back for that, or every fifth list if there are no sessions.
    """
    if model not in CLICK_MODELS:
        raise ValueError(f"model must be one of {', '.join(CLICK_MODELS)}; got {model!r}")
    if held_out is None:
        judged = _held_out(logs)
        train, test = columns(logs, ~judged), columns(logs, judged)
    else:
        train, test = columns(logs), _same_numbers(logs, held_out)
    notes: list[str] = []
    scores = _scores(train, test, notes)
    chosen = _fitted(CLICK_MODELS[model].thorough, columns(logs), notes)
    raw, observations = chosen.examination_of(**columns(logs))
    examination, factor = scaled(raw, observations)
    if chosen.implies_table:
        name = type(chosen).__name__
        notes.append(
            f"{name} is no UBM: each cell is the mean chance that a user still reads there, over the log's rows"
        )
    return Fit(
        model=model,
        examination=examination,
        observations=observations,
        factor=factor,
        scores=scores,
        tied=[name for name in CLICK_MODELS if scores[name].behind <= CLOSE * scores[name].behind_error],
        trained_on=len(train["sizes"]),
        judged_on=len(test["sizes"]),
        notes=list(dict.fromkeys(notes)),
        steepness=steepness(examination, observations),
        level=float((logs.clicks > 0).sum() / (examination * observations).sum()),
        settled=settled_positions(logs.items, logs.sizes, logs.queries),
    )


def scaled(examination: NDArray[np.float64], observations: NDArray[np.int64]) -> tuple[NDArray[np.float64], float]:
    """Return a table whose largest well-observed cell is 1 and no cell above it, and what it was divided by.

    Clicks tell w only up to a factor, which this fixes. A cell of few rows may come out as anything, so it does not
    decide; if all cells have few, the most observed one does.

    >>> scaled(np.array([0.3, 0.15, 0.6]), np.array([900, 900, 2]))
    (array([1. , 0.5, 1. ]), 0.3)
    """
    well = observations >= min(WELL_OBSERVED, int(observations.max()))
    factor = float(examination[well].max())
    return (np.minimum(examination / factor, 1.0), factor) if factor > 0 else (examination, 1.0)


def columns(logs: Logs, rows: NDArray[np.bool_] | None = None) -> FitColumns:
    """Return all lists, or some, as a click model takes them."""
    every = FitColumns(items=logs.items, clicks=logs.clicks, queries=logs.queries, sizes=logs.sizes)
    return every if rows is None else _part(every, rows)


def _held_out(logs: Logs) -> NDArray[np.bool_]:
    """Return which lists to judge on: whole sessions, the same ones each time, none longer than the others."""
    if logs.sessions is None:
        judged = np.arange(len(logs)) % FOLDS == FOLDS - 1
    else:
        judged = np.array([zlib.crc32(session.encode()) % FOLDS == 0 for session in logs.sessions])
    if judged.all() or not judged.any():
        raise LogError(
            f"{logs.name} has too few sessions ({len(logs)} lists) to hold some back; give other lists with --held-out"
        )
    return np.asarray(judged & (logs.sizes <= logs.sizes[~judged].max()))


def _same_numbers(logs: Logs, other: Logs) -> FitColumns:
    """Return the lists of another file with the item and query numbers of ``logs``; new ones get new numbers."""
    if (logs.queries is None) != (other.queries is None):
        raise LogError(f"{logs.name} and {other.name} must both have queries, or neither")
    if type(logs.item_ids[0]) is not type(other.item_ids[0]):
        raise LogError(f"item ids are {logs.item_ids[0]!r} in {logs.name} and {other.item_ids[0]!r} in {other.name}")
    if other.positions > logs.positions:
        at = int(np.argmax(other.sizes))
        raise LogError(f"{other.place(at)} has {other.positions} items, {logs.name} at most {logs.positions}")
    items = _renumbered(other.items, logs.item_ids, other.item_ids)
    queries = None
    if logs.queries is not None and other.queries is not None:
        queries = _renumbered(other.queries, logs.query_ids, other.query_ids)
    return FitColumns(items=items, clicks=other.clicks, queries=queries, sizes=other.sizes)


def _renumbered(numbers: NDArray[np.int64], known: list[str], ids: list[str]) -> NDArray[np.int64]:
    number_of = {name: number for number, name in enumerate(known)}
    table = np.array([number_of.get(name, len(known) + number) for number, name in enumerate(ids)])
    return np.where(numbers < 0, numbers, table[numbers])


def _fitted(kind: Callable[[], ClickModel], train: FitColumns, notes: list[str]) -> ClickModel:
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        model = kind().fit(**train)
    notes.extend(str(warning.message) for warning in said)
    return model


def _scores(train: FitColumns, test: FitColumns, notes: list[str]) -> dict[str, ModelScore]:
    kinds = {name: kind.thorough for name, kind in CLICK_MODELS.items()} | BASELINES
    models = {name: _fitted(kind, train, notes) for name, kind in kinds.items()}
    parts = np.array_split(np.arange(len(test["sizes"])), min(PARTS, len(test["sizes"])))
    likelihoods = {
        name: np.array([model.log_likelihood(**_part(test, rows)) for rows in parts]) for name, model in models.items()
    }
    overall = {name: model.log_likelihood(**test) for name, model in models.items()}
    best = max(CLICK_MODELS, key=lambda name: overall[name])
    scores = {}
    for name, model in models.items():
        apart = likelihoods[best] - likelihoods[name]
        scores[name] = ModelScore(
            perplexity=model.perplexity_per_rank(**test),
            conditional_perplexity=model.conditional_perplexity(**test),
            log_likelihood=overall[name],
            behind=overall[best] - overall[name],
            behind_error=float(apart.std(ddof=1) / np.sqrt(len(parts))) if len(parts) > 1 else float("inf"),
        )
    return scores


def _part(lists: FitColumns, rows: NDArray[Any]) -> FitColumns:
    queries = None if lists["queries"] is None else lists["queries"][rows]
    return FitColumns(
        items=lists["items"][rows], clicks=lists["clicks"][rows], queries=queries, sizes=lists["sizes"][rows]
    )
