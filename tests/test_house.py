"""The house: what lies below what is told by import-linter (pyproject.toml); the rest of its rules stand here."""

import ast
import collections
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = ("learner", "schemas", "streams")
NUMBERS = {"numpy", "scipy"}
DOORS = {"__init__.py", "app.py", "cli.py", "client.py", "ranker.py"}
ROOMS = sorted(folder.name for folder in (ROOT / "streams").iterdir() if (folder / "__init__.py").exists())
LIBRARIES = ("consumer", "producer", "fetcher", "admin", "client", "thread", "app", "transport", "worker", "conductor")
MAY_TOUCH_PRIVATE = ("broker/", "learn/job/")
STAGES = {  # the rooms that events flow through, and in each the file that its work is in
    *(f"streams/{room}/__init__.py" for room in ("join", "learn", "rank", "replay", "lag")),
    *("streams/join/session_join.py", "streams/learn/partition_learner.py", "streams/learn/job/app.py"),
    *("streams/rank/job/ranker.py", "streams/replay/job/replay.py", "streams/lag/report.py"),
}


def modules(*packages: str) -> Iterator[tuple[Path, ast.Module]]:
    for package in packages:
        for path in sorted((ROOT / package).rglob("*.py")):
            yield path.relative_to(ROOT), ast.parse(path.read_text(encoding="utf-8"))


def imports(tree: ast.Module) -> Iterator[tuple[str, list[str]]]:
    """Yield the module that each import names, wherever in the file, and what it takes from there."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, []) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"line {node.lineno} imports relatively; write the full name"
            yield str(node.module), [alias.name for alias in node.names]


def test_the_learner_imports_numbers_only():
    for path, tree in modules("learner"):
        names = {module.split(".")[0] for module, _ in imports(tree)}
        assert names <= NUMBERS | {"learner"} | sys.stdlib_module_names, path


def test_no_two_classes_share_a_name():
    found = collections.defaultdict(list)
    for path, tree in modules(*PACKAGES):
        for node in tree.body:
            if isinstance(node, ast.ClassDef):
                found[node.name].append(str(path))
    assert {name: paths for name, paths in found.items() if len(paths) > 1} == {}


def test_files_directly_in_streams_are_doors():
    assert {path.name for path in (ROOT / "streams").glob("*.py")} == DOORS
    for name in DOORS:
        tree = ast.parse((ROOT / "streams" / name).read_text())
        assert len(ast.unparse(tree).splitlines()) <= 20, name
        assert not [node for node in tree.body if isinstance(node, ast.ClassDef)], name


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_says_what_it_is_for_and_what_others_may_use(room):
    tree = ast.parse((ROOT / "streams" / room / "__init__.py").read_text())
    assert ast.get_docstring(tree), room
    kinds = {type(node) for node in tree.body[1:]}
    assert kinds <= {ast.ImportFrom, ast.Assign}, f"{room}/__init__.py only re-exports"


def test_other_rooms_are_entered_by_their_front():
    wrong = []
    for path, tree in modules("streams"):
        own = path.parts[1] if len(path.parts) > 2 else None
        for module, names in imports(tree):
            _, *inside = module.split(".")
            if module.startswith("streams.") and inside[0] != own and not is_front(inside, names):
                wrong.append(f"{path}: from {module} import {', '.join(names)}")
    assert wrong == []


def is_front(inside: list[str], names: list[str]) -> bool:
    """Return whether an import names a room or its job, and takes no file out of it."""
    place = (ROOT / "streams").joinpath(*inside)
    files = {file.stem for file in place.glob("*.py")} - exported(place / "__init__.py")
    return inside[1:] in ([], ["job"]) and not set(names) & files


def exported(init: Path) -> set[str]:
    tree = ast.parse(init.read_text() if init.exists() else "")
    return {name for node in tree.body if isinstance(node, ast.Assign) for name in ast.literal_eval(node.value)}


def test_private_attributes_of_the_libraries_are_touched_in_two_places_only():
    """An attribute with an underscore of anything but self, outside of the two places, if its owner is a client."""
    wrong = []
    for path, tree in modules("streams"):
        if str(path.relative_to("streams")).startswith(MAY_TOUCH_PRIVATE):
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and node.attr.startswith("_") and not node.attr.startswith("__"):
                owner = ast.unparse(node.value)
                if owner not in ("self", "cls") and owner.split(".")[-1].strip("_").endswith(LIBRARIES):
                    wrong.append(f"{path}:{node.lineno} {ast.unparse(node)}")
    assert wrong == []


def test_only_stages_of_the_flow_say_what_goes_in_and_out():
    summaries = {str(path): (ast.get_docstring(tree) or "").partition("\n")[0] for path, tree in modules(*PACKAGES)}
    assert {path for path, text in summaries.items() if re.search(r"\bin\b[,;].*\bout\b", text)} == STAGES


def test_tests_mirror_the_rooms():
    folders = {path.name for path in (ROOT / "tests" / "streams").iterdir() if path.is_dir() and path.name[0] != "_"}
    assert folders <= set(ROOMS)
    assert not list((ROOT / "tests").rglob("__init__.py")), "a package below tests would hide the real one"


def test_json_of_others_is_read_in_one_way():
    """``json.loads`` raises RecursionError on text nested deeply, which nobody thinks of."""
    wrong = [
        f"{path}:{node.lineno}"
        for path, tree in modules("streams")
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and ast.unparse(node) == "json.loads"
    ]
    assert wrong == [], "use schemas.json_text.parse_json"


def test_a_built_package_holds_every_file_that_the_code_reads():
    data = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]
    packed = {
        path
        for package, patterns in data.items()
        if package != "*"
        for pattern in patterns
        for path in ROOT.joinpath(*package.split(".")).glob(pattern)
    }
    files = {path for package in PACKAGES for path in (ROOT / package).rglob("*.*") if "__pycache__" not in path.parts}
    read = {path for path in files if path.suffix not in (".py", ".typed", ".md")}
    assert {path.suffix for path in read} >= {".avsc", ".html", ".js", ".json"}
    assert {str(path.relative_to(ROOT)) for path in read - packed} == set()
    folders = re.findall(r'with_name\("(\w+)"\)', (ROOT / "schemas" / "known.py").read_text())
    assert folders, "the folder of former schemas"
    assert {"*.avsc", *(f"{folder}/*.avsc" for folder in folders)} <= set(data["schemas"])
