"""The command line: ``glimpse``, also ``python -m streams.cli``."""

from streams.commands import main

__all__ = ["main"]

if __name__ == "__main__":
    main()
