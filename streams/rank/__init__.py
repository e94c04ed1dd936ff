"""Snapshots and candidates in, lists out."""

from streams.rank.catalogue import Catalogue, CatalogueError
from streams.rank.catalogue_file import read_catalogue, read_encoder
from streams.rank.recipe import Recipe
from streams.rank.requests import Candidates, read_candidates

__all__ = [
    "Candidates",
    "Catalogue",
    "CatalogueError",
    "Recipe",
    "read_candidates",
    "read_catalogue",
    "read_encoder",
]
