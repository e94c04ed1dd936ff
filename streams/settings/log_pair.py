"""The two input logs as a named pair."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, NamedTuple, TypeVar

T_co = TypeVar("T_co", covariant=True)
U = TypeVar("U")


class LogPair(NamedTuple, Generic[T_co]):
    """The same thing of both input logs, such as their topics, offsets or commits.

    >>> LogPair(impressions=12, clicks=7).map(str)
    LogPair(impressions='12', clicks='7')
    """

    impressions: T_co
    clicks: T_co

    def map(self, convert: Callable[[T_co], U]) -> LogPair[U]:
        """Return what ``convert`` makes of each."""
        return LogPair(convert(self.impressions), convert(self.clicks))

    def paired_with(self, other: LogPair[U]) -> LogPair[tuple[T_co, U]]:
        """Return, of each log, what this pair and the other one have.

        >>> dict(LogPair("impressions", "clicks").paired_with(LogPair(12, 7)))
        {'impressions': 12, 'clicks': 7}
        """
        return LogPair((self.impressions, other.impressions), (self.clicks, other.clicks))


EVENTS = LogPair("impressions", "clicks")  # what services write; plain names, without the prefix of a deployment
