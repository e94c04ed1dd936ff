"""The encoding half of a trained autoencoder, from wide features to short codes, fast enough to run online.

A context has the user's columns first, then the item's. The first layer is a sum over columns, so it splits into a
user's half and an item's half; item halves are computed once, and a visit costs one addition and one small product per
candidate.
"""

import hashlib
import json
import math
from dataclasses import dataclass, fields
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float32]

MAGIC = b"glimpse encoder 1\n"  # the number is the format's version
BLOCK_ROWS = 2048  # candidates worked on at once: their hidden layer stays in the second-level cache
HEADER = ("user_columns", "columns", "hidden", "code")


class EncoderError(ValueError):
    """Bytes that hold no usable encoder."""


class Half(NamedTuple):
    """One side's share of the first layer, (n, hidden), and how many of its values were not as in training."""

    values: Floats
    outside: int  # values beyond the range of their column in training, moved to its end
    missing: int  # NaN, replaced by the column's median


class Codes(NamedTuple):
    """Codes (n, code) of Euclidean length 1 at most, and what had to be bent for that."""

    values: Floats
    shortened: int  # codes longer than any in training, shortened to length 1
    outside: int
    missing: int


@dataclass(frozen=True, slots=True, eq=False)
class Encoder:
    """Two ReLU layers over scaled features; codes are divided by the largest norm met in training.

    A value is scaled by its column's range in training, (x − low)/(high − low). Beyond the range (also ±inf) it is
    moved to the nearer end, a missing one (NaN) becomes the column's median in training, and a column that was constant
    in training is 0: it told nothing then. All these are counted, except the last.
    """

    user_columns: int  # how many of the first columns describe the user; the others describe the item
    low: Floats  # of each column in training, as high and median
    high: Floats
    median: Floats
    first: Floats  # the two layers: (columns, hidden), (hidden,), (hidden, code), (code,)
    first_bias: Floats
    second: Floats
    second_bias: Floats
    norm: Floats  # the largest Euclidean norm of a code in training

    def __post_init__(self) -> None:
        for name in ARRAYS:
            array = np.ascontiguousarray(getattr(self, name), dtype=np.float32)
            object.__setattr__(self, name, array.reshape(1) if name == "norm" else array)
        hidden, code = self.second.shape if self.second.ndim == 2 else (0, 0)
        for name, shape in _shapes(len(self.low), hidden, code).items():
            array = getattr(self, name)
            if array.shape != shape:
                raise EncoderError(f"{name} must have shape {shape}, got {array.shape}")
            if not np.isfinite(array).all():
                raise EncoderError(f"{name} holds a number that is not finite; train the encoder again")
        if not 0 <= self.user_columns <= len(self.low):
            raise EncoderError(f"user_columns must be 0 to {len(self.low)}, got {self.user_columns}")
        if np.any(self.high < self.low) or self.norm[0] <= 0:
            raise EncoderError("every column needs low ≤ high, and the largest norm must be above 0")

    @property
    def columns(self) -> int:
        """How many features a context has."""
        return len(self.low)

    @property
    def code(self) -> int:
        """How many features a code has: the learner's ``dim``."""
        return int(self.second.shape[1])

    def encode(self, contexts: ArrayLike) -> Codes:
        """Return the codes of whole contexts (n, columns)."""
        half = self._half(contexts, slice(0, self.columns))
        values, shortened = self._codes(half.values, self.first_bias)
        return Codes(values, shortened, half.outside, half.missing)

    def item_half(self, features: ArrayLike) -> Half:
        """Return the items' share of the first layer from their features (n, columns − user_columns); keep it."""
        return self._half(features, slice(self.user_columns, self.columns))

    def user_half(self, features: ArrayLike) -> Half:
        """Return the users' share of the first layer from their features (n, user_columns)."""
        return self._half(features, slice(0, self.user_columns))

    def join(self, user: Half, items: Half) -> Codes:
        """Return the codes of one user with every item, or of users and items row by row."""
        if len(user.values) not in (1, len(items.values)):
            raise ValueError(
                f"join takes one user or one for each of {len(items.values)} items, got {len(user.values)}"
            )
        if len(user.values) == 1:
            values, shortened = self._codes(items.values, user.values[0] + self.first_bias)
        else:
            values, shortened = self._codes(user.values + items.values, self.first_bias)
        return Codes(values, shortened, user.outside + items.outside, user.missing + items.missing)

    def _half(self, features: ArrayLike, columns: slice) -> Half:
        x = np.array(features, dtype=np.float32, order="C")  # a copy: missing values are filled in place
        width = columns.stop - columns.start
        if x.ndim != 2 or x.shape[1] != width:
            raise ValueError(f"features must have {width} columns, got shape {x.shape}")
        low, high, median = self.low[columns], self.high[columns], self.median[columns]
        missing = 0
        if np.isnan(x.sum()):  # one pass decides whether there is anything to fill; inf − inf is no harm
            holes = np.isnan(x)
            missing = int(np.count_nonzero(holes))
            np.copyto(x, median, where=holes)
        outside = int(np.count_nonzero(x < low) + np.count_nonzero(x > high))
        if outside:
            np.clip(x, low, high, out=x)
        span = high - low
        x -= low
        x *= np.divide(1.0, span, out=np.zeros_like(span), where=span > 0)
        return Half(x @ self.first[columns], outside, missing)

    def _codes(self, hidden: Floats, bias: Floats) -> tuple[Floats, int]:
        second, second_bias = self.second / self.norm, self.second_bias / self.norm  # ReLU(c)/norm = ReLU(c/norm)
        codes = np.empty((len(hidden), self.code), dtype=np.float32)
        shortened = 0
        for start in range(0, len(hidden), BLOCK_ROWS):
            block = hidden[start : start + BLOCK_ROWS] + bias
            np.maximum(block, 0.0, out=block)
            out = codes[start : start + BLOCK_ROWS]
            np.matmul(block, second, out=out)
            out += second_bias
            np.maximum(out, 0.0, out=out)
            squares = np.einsum("ij,ij->i", out, out)
            if float(squares.max()) > 1.0:
                long = np.flatnonzero(squares > 1.0)
                shortened += len(long)
                out[long] /= np.sqrt(squares[long])[:, None]
        return codes, shortened

    def to_bytes(self) -> bytes:
        """Return the file's content: a line with the version, a line of JSON with the sizes, the arrays as float32."""
        sizes = dict(zip(HEADER, (self.user_columns, self.columns, *self.second.shape), strict=True))
        arrays = (getattr(self, name).astype("<f4").tobytes() for name in ARRAYS)
        return b"".join((MAGIC, json.dumps(sizes).encode(), b"\n", *arrays))

    @classmethod
    def from_bytes(cls, data: bytes) -> "Encoder":
        """Return the encoder that ``to_bytes`` wrote, or say what is wrong with the bytes."""
        if not data.startswith(MAGIC):
            raise EncoderError(f"an encoder starts with {MAGIC!r}, found {data[: len(MAGIC)]!r}")
        line, newline, body = data[len(MAGIC) :].partition(b"\n")
        try:
            sizes = json.loads(line)
        except ValueError as error:
            raise EncoderError(f"the encoder's second line is no JSON: {line[:80]!r}") from error
        if not newline or not isinstance(sizes, dict) or set(sizes) != set(HEADER):
            raise EncoderError(f"the encoder's second line must name {', '.join(HEADER)}; found {line[:80]!r}")
        if not all(type(size) is int and 0 <= size <= 1 << 20 for size in sizes.values()):
            raise EncoderError(f"the encoder's sizes must be counts, found {sizes}")
        shapes = _shapes(sizes["columns"], sizes["hidden"], sizes["code"])
        wanted = 4 * sum(map(math.prod, shapes.values()))
        if len(body) != wanted:
            raise EncoderError(f"an encoder of {sizes} has {wanted} bytes of numbers, found {len(body)}")
        ends = np.cumsum([math.prod(shape) for shape in shapes.values()])
        parts = np.split(np.frombuffer(body, dtype="<f4"), ends[:-1])
        arrays = {name: part.reshape(shape) for (name, shape), part in zip(shapes.items(), parts, strict=True)}
        return cls(sizes["user_columns"], **arrays)

    def sha256(self) -> str:
        """Return the SHA-256 of the file's content: encoders that agree in it give the same codes."""
        return hashlib.sha256(self.to_bytes()).hexdigest()


ARRAYS = tuple(field.name for field in fields(Encoder) if field.name != "user_columns")


def _shapes(columns: int, hidden: int, code: int) -> dict[str, tuple[int, ...]]:
    """Return the shape of every array, in the order of the file."""
    sides: list[tuple[int, ...]] = [(columns,)] * 3
    layers: list[tuple[int, ...]] = [(columns, hidden), (hidden,), (hidden, code), (code,), (1,)]
    return dict(zip(ARRAYS, sides + layers, strict=True))
