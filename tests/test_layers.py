"""Imports go one way: streams -> learner and schemas; learner reaches nothing but numbers."""

import ast
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
OURS = {"learner", "schemas", "streams"}
ALLOWED = {"learner": {"learner"}, "schemas": {"schemas"}, "streams": OURS}
NUMBERS = {"numpy", "scipy"}


def imported(path: Path) -> set[str]:
    """Return the top-level names that a module imports, wherever in the file."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} imports relatively; write the full name"
            names.add(str(node.module).split(".")[0])
    return names


@pytest.mark.parametrize("package", sorted(OURS))
def test_packages_import_only_what_lies_below_them(package):
    modules = sorted((ROOT / package).rglob("*.py"))
    assert modules
    for path in modules:
        assert imported(path) & OURS <= ALLOWED[package], path


def test_the_learner_imports_numbers_only():
    for path in sorted((ROOT / "learner").rglob("*.py")):
        assert imported(path) <= NUMBERS | {"learner"} | sys.stdlib_module_names, path


def test_no_test_folder_is_a_package():
    assert not list((ROOT / "tests").rglob("__init__.py"))
