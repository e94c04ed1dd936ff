"""A ranker that takes new snapshots over while it serves, and the ranking service around it."""

from streams.rank.job.catalogues import CatalogueFile, CatalogueTopic
from streams.rank.job.metrics import health_of
from streams.rank.job.publish import publish_catalogue
from streams.rank.job.ranker import Ranker
from streams.rank.job.run import rank_service, serve
from streams.rank.job.server import RankServer
from streams.rank.job.service import ServiceOptions

__all__ = [
    "CatalogueFile",
    "CatalogueTopic",
    "RankServer",
    "Ranker",
    "ServiceOptions",
    "health_of",
    "publish_catalogue",
    "rank_service",
    "serve",
]
