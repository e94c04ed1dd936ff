"""An encoder in a small file."""

from __future__ import annotations

import os
from pathlib import Path

from learner.encoder import Encoder, EncoderError


def read_encoder(file: Path) -> Encoder:
    """Return the encoder in ``file``, or an EncoderError that names the file and what is wrong with it."""
    try:
        return Encoder.from_bytes(file.read_bytes())
    except OSError as error:
        raise EncoderError(f"{file} cannot be read: {error.strerror}; train an encoder first") from error
    except EncoderError as error:
        raise EncoderError(f"{file}: {error}") from error


def write_encoder(file: Path, encoder: Encoder) -> str:
    """Write an encoder, whole or not at all, and return its hash."""
    part = file.with_name(file.name + ".part")
    part.write_bytes(encoder.to_bytes())
    os.replace(part, file)  # a reader meets the old file or the new one
    return encoder.sha256()
