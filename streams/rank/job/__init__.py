"""A ranker that takes new snapshots over while it serves, and the ranking service around it."""

from streams.rank.job.catalogues import CatalogueFile, CatalogueTopic, publish_catalogue
from streams.rank.job.metrics import health_of
from streams.rank.job.ranker import Ranker
from streams.rank.job.server import RankServer, rank_service, serve

__all__ = [
    "CatalogueFile",
    "CatalogueTopic",
    "RankServer",
    "Ranker",
    "health_of",
    "publish_catalogue",
    "rank_service",
    "serve",
]
