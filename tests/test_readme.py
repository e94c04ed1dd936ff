"""The README's Python runs as it stands, and its commands exist."""

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```", README, flags=re.MULTILINE | re.DOTALL)


def test_python_examples_run():
    examples = blocks("python")
    assert examples
    for example in examples:
        exec(compile(example, "README.md", "exec"), {})


def test_make_commands_are_targets():
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.MULTILINE))
    used = set(re.findall(r"\bmake (\w+)", "\n".join(blocks("sh")) + " ".join(re.findall(r"`([^`]+)`", README))))
    assert {"demo", "test"} <= used <= targets
