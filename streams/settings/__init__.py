"""What a command is told: glimpse.toml and the environment, checked once into Settings and its Buckets."""

from streams.settings.bucket import Bucket
from streams.settings.checks import SettingsError, without_logins
from streams.settings.examination import ExaminationError, read_examination, write_examination
from streams.settings.load import UP_FOLDER, load, write_running
from streams.settings.settings import Settings
from streams.settings.sources import read_secret
from streams.settings.split import SplitSettings
from streams.settings.topics import EVENTS, TOPICS, Topics

__all__ = [
    "EVENTS",
    "TOPICS",
    "UP_FOLDER",
    "Bucket",
    "ExaminationError",
    "Settings",
    "SettingsError",
    "SplitSettings",
    "Topics",
    "load",
    "read_examination",
    "read_secret",
    "without_logins",
    "write_examination",
    "write_running",
]
