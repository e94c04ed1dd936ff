"""What answers over HTTP: one server, who may see it, health pages and metrics."""

from streams.web.health import CONTENT_TYPE, SECONDS, STUCK_S, BulkHistogram, Health, StuckCheck, text_of, verdict
from streams.web.server import Access, WebError, WebServer, is_loopback

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
