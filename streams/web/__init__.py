"""What answers over HTTP: one server, who may see it, health pages and metrics."""

from streams.web.access import HEADERS, Access, is_loopback
from streams.web.health import Health
from streams.web.metrics import CONTENT_TYPE, SECONDS, BulkHistogram, text_of
from streams.web.server import WebError, WebThread

__all__ = [
    "CONTENT_TYPE",
    "HEADERS",
    "SECONDS",
    "Access",
    "BulkHistogram",
    "Health",
    "WebError",
    "WebThread",
    "is_loopback",
    "text_of",
]
