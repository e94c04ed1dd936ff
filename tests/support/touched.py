"""Which of our files run code between two moments, in this process or in one that tests/support/traced starts with."""

import sys
import threading
import time
from pathlib import Path
from types import CodeType, FrameType

OURS = ("learner.", "schemas.", "streams.")


class Touched:
    """Notes every function of ours that is called, in threads that begin later too; importing a file is no call."""

    def __init__(self) -> None:
        self._codes: dict[CodeType, str] = {}

    def start(self) -> None:
        """Begin to note."""
        threading.setprofile(self._note)
        sys.setprofile(self._note)

    def stop(self) -> None:
        """Note no more."""
        sys.setprofile(None)
        threading.setprofile(None)

    def _note(self, frame: FrameType, event: str, argument: object) -> None:
        code = frame.f_code
        if event == "call" and code not in self._codes and code.co_name != "<module>":
            self._codes[code] = frame.f_globals.get("__name__", "")  # also of methods that dataclasses write

    def take(self) -> list[str]:
        """Return the files that were touched since the last time, in the order of the first touch."""
        modules, self._codes = dict.fromkeys(self._codes.copy().values()), {}
        return [name.replace(".", "/") + ".py" for name in modules if name.startswith(OURS)]

    def answer(self, folder: Path) -> None:
        """Write what ``take`` returns whenever the file ``ask`` appears anew, to a file named after it."""
        answered = set()
        while True:
            for ask in set(folder.glob("ask-*")) - answered:
                answered.add(ask)
                part = folder / f".{ask.name}-{threading.get_native_id()}"
                part.write_text("\n".join(self.take()))
                part.rename(folder / f"answer-{ask.name}-{part.name.rpartition('-')[2]}")
            time.sleep(0.05)
