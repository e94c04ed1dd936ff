"""What answers over HTTP: one server, who may see it, health pages and metrics."""

from streams.web.access import Access, is_loopback
from streams.web.health import STUCK_S, Health, StuckCheck, verdict
from streams.web.metrics import CONTENT_TYPE, SECONDS, BulkHistogram, text_of
from streams.web.server import WebError, WebServer

__all__ = [
    "CONTENT_TYPE",
    "SECONDS",
    "STUCK_S",
    "Access",
    "BulkHistogram",
    "Health",
    "StuckCheck",
    "WebError",
    "WebServer",
    "is_loopback",
    "text_of",
    "verdict",
]
