"""The learners as a Faust app."""

from streams.learn.job.app import create_app, run_learn

__all__ = ["create_app", "run_learn"]
