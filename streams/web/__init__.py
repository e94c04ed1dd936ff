"""What answers over HTTP: one server, who may see it, health pages and metrics."""

from streams.web.access import HEADERS, Access, is_loopback
from streams.web.health import Health
from streams.web.metrics import CONTENT_TYPE, Histogram, Metrics
from streams.web.server import WebError, WebThread

__all__ = [
    "CONTENT_TYPE",
    "HEADERS",
    "Access",
    "Health",
    "Histogram",
    "Metrics",
    "WebError",
    "WebThread",
    "is_loopback",
]
