"""The names of the topics."""

from __future__ import annotations

from dataclasses import dataclass

from streams.settings.settings import Settings

EVENTS = ("impressions", "clicks")  # what services write; plain names, without the prefix of a deployment
TOPICS = (*EVENTS, "samples", "parameters", "dead-letters", "late-clicks")


@dataclass(frozen=True, slots=True)
class Topics:
    """The names of all topics in one deployment."""

    impressions: str
    clicks: str
    samples: str
    parameters: str
    dead_letters: str
    late_clicks: str

    @classmethod
    def of(cls, settings: Settings) -> Topics:
        """Return the names that ``settings`` gives to the topics."""
        return cls(*(settings.topic_prefix + name for name in TOPICS))

    @property
    def events(self) -> tuple[str, str]:
        """The two that services write."""
        return self.impressions, self.clicks

    @property
    def of_jobs(self) -> tuple[str, str, str, str]:
        """Those that the stream jobs write."""
        return self.samples, self.parameters, self.dead_letters, self.late_clicks
