"""What a command is told: glimpse.toml and the environment, checked once into Settings and its Buckets."""

from streams.settings.bucket import (
    MAX_DIM,
    Bucket,
    ExaminationError,
    SplitSettings,
    read_examination,
    write_examination,
)
from streams.settings.checks import SettingsError, without_logins
from streams.settings.load import UP_FOLDER, load, read_secret, write_running
from streams.settings.log_pair import EVENTS, LogPair
from streams.settings.settings import TOPICS, Settings, Topics

__all__ = [
    "EVENTS",
    "MAX_DIM",
    "TOPICS",
    "UP_FOLDER",
    "Bucket",
    "ExaminationError",
    "LogPair",
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
