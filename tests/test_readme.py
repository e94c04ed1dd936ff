"""The papers of the house say what is there: commands, rooms, files and links."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAPERS = {path.name: path.read_text(encoding="utf-8") for path in ROOT.glob("*.md")}
PACKAGES = ("learner", "schemas", "streams")


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```", README, flags=re.MULTILINE | re.DOTALL)


def test_python_examples_run():
    examples = blocks("python")
    assert examples
    for example in examples:
        exec(compile(example, "README.md", "exec"), {})


def test_the_readme_stays_short():
    assert len(README.split()) <= 1600


def test_make_commands_are_targets():
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.MULTILINE))
    used = set(re.findall(r"\bmake (\w+)", "\n".join(blocks("sh")) + " ".join(re.findall(r"`([^`]+)`", README))))
    assert {"demo", "test"} <= used <= targets


def test_the_architecture_lists_every_room_in_the_rooms_own_words():
    section = PAPERS["ARCHITECTURE.md"].partition("\n## The rooms\n")[2].partition("\n## ")[0]
    rows = dict(re.findall(r"^\| `([\w/]+)` \| (.*) \|$", section, flags=re.MULTILINE))
    inits = [
        init for package in PACKAGES for init in (ROOT / package).rglob("__init__.py") if init.parent.name != "job"
    ]
    rooms = {str(init.parent.relative_to(ROOT)): ast.get_docstring(ast.parse(init.read_text())) for init in inits}
    del rooms["streams"]
    assert {room: rows.get(room) for room in rooms} == rooms


@pytest.mark.parametrize("paper", PAPERS)
def test_files_that_a_paper_names_are_there(paper):
    links = re.findall(r"\]\(([^)#:]+)\)", PAPERS[paper])
    files = re.findall(r"`((?:deploy|examples|learner|schemas|streams|tests)/[\w./-]*\w)`", PAPERS[paper])
    assert [name for name in links + files if not (ROOT / name).exists()] == []
