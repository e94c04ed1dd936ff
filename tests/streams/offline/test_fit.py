"""`glimpse fit`: the table that was put in comes out, in a file that settings take, beside the model that fits best."""

import json
from dataclasses import replace
from io import StringIO
from itertools import product

import numpy as np
import pytest
from rich.console import Console
from simulated_clicks import POSITIONS, SPECIAL_CASES, browsed_log, is_right
from typer.testing import CliRunner

from learner.click_models import DCM
from learner.click_models.log import settled_positions
from learner.experiments.gap import LEVELS, POWERS
from learner.simulate import Users, browsing_table
from streams.charts import svg_map
from streams.commands.main import cli
from streams.offline import run_fit
from streams.offline.fit import fit, scaled
from streams.offline.fit_view import gap_cells, nearest_cell, surely, verdict
from streams.offline.logs import LogError, read_logs
from streams.settings import read_examination

TABLE = browsing_table(4)
GAMMA = np.array([1.0, 0.8, 0.7, 0.5, 0.4, 0.3])  # one item everybody likes, so that w is known and not only its ratios


def write_log(path, *, lists=6000, seed=0, table=TABLE, session=True, names=str):
    random = np.random.default_rng(seed)
    shown = np.argsort(random.random((lists, len(GAMMA))), axis=1)[:, :4]
    clicks = Users(np.ones(1), table).browse(GAMMA[shown][..., None], random).astype(int)
    with path.open("w") as file:
        for at, (items, clicked) in enumerate(zip(shown.tolist(), clicks.tolist(), strict=True)):
            line = {"items": [names(item) for item in items], "clicks": clicked}
            file.write(json.dumps(line | ({"session": f"s{at // 3}"} if session else {})) + "\n")
    return path


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    return write_log(tmp_path_factory.mktemp("fit") / "log.jsonl")


def quiet():
    return Console(file=StringIO(), width=100)


def test_the_users_table_comes_out_and_can_be_set(log, tmp_path):
    console = quiet()
    fitted = run_fit(
        read_logs(log), model="ubm", out=tmp_path / "table.json", picture=tmp_path / "map.svg", console=console
    )
    assert np.abs(fitted.examination - TABLE / TABLE.max()).max() < 0.08
    np.testing.assert_array_equal(read_examination(tmp_path / "table.json"), fitted.examination)
    assert fitted.observations[0, 0] == 6000
    said = console.file.getvalue()
    assert "held-out lists, foretold from" in said
    assert "position-only" in said
    assert "nearest cell 1/k^0.25, 0.3" in " ".join(said.split())
    assert "-0.0 ± 0.1% clicks over C²UCB after 5,000 lists with candidates that change (undecided)" in " ".join(
        said.split()
    )
    assert 0.2 < fitted.steepness < 0.4
    assert fitted.level == pytest.approx(0.6, abs=0.1)  # of the items shown, on average
    assert "best: ubm, ahead of" in said
    assert f"divided by {fitted.factor:.4f}, so that the largest well-observed cell is 1" in said
    written = json.loads((tmp_path / "table.json").read_text())
    assert written["factor"] == fitted.factor
    assert "only up to a factor" in written["scale"]
    assert (tmp_path / "map.svg").read_text().count("<rect") == 10
    assert fitted.trained_on + fitted.judged_on == 6000
    assert 900 < fitted.judged_on < 1500


def test_a_table_is_told_what_weights_gained_in_traffic_like_its_own():
    """The measured map has every cell of the experiment, each with its interval, and a place beyond it has a cell."""
    assert [(cell.power, cell.level) for cell in gap_cells()] == list(product(POWERS, LEVELS))
    assert all(lift.half for cell in gap_cells() for lift in (cell.changing, cell.fixed))
    places = {(1.89, 0.15): (2.0, 0.1), (0.94, 0.35): (1.0, 0.3), (0.0, 1e-9): (0.25, 0.03), (9.0, 1.0): (2.0, 0.3)}
    for place, cell in places.items():
        nearest = nearest_cell(*place)
        assert (nearest.power, nearest.level) == cell
    assert surely(nearest_cell(2.0, 0.3).changing) == "weights pay"


def test_a_ranker_that_never_varies_is_said_to_hide_the_table(log, tmp_path):
    """The log of lists in random order says nothing of the kind; sorted, the same items always stand alike."""
    mixed = fit(read_logs(log))
    assert abs(mixed.settled) < 0.05
    assert not any("decided by the item itself" in line for line in verdict(mixed))
    told = replace(mixed, settled=0.81)
    assert any("81% of where an item stands is decided by the item itself" in line for line in verdict(told))
    shown = np.sort(np.argsort(np.random.default_rng(0).random((500, 6)), axis=1)[:, :4], axis=1)
    sizes = np.full(500, 4)
    assert settled_positions(shown, sizes) > 0.7
    assert np.isnan(settled_positions(np.arange(2000).reshape(500, 4), sizes))
    assert settled_positions(shown, sizes, np.arange(500) % 2) == pytest.approx(
        settled_positions(shown, sizes), abs=0.02
    )


def test_the_model_that_users_follow_is_recommended(log, tmp_path):
    assert fit(read_logs(log)).recommended == "ubm"
    by_position = np.tril(np.tile([[0.9], [0.7], [0.5], [0.3]], 4))
    fitted = fit(read_logs(write_log(tmp_path / "pbm", table=by_position)), model="pbm")
    assert fitted.recommended == "pbm"  # UBM can do the same, with more numbers
    assert fitted.examination.shape == (4,)
    assert fitted.scores["cm"].behind > 0.1


def test_sessions_stay_together_and_the_split_is_the_same_each_time(log):
    first, second = fit(read_logs(log)), fit(read_logs(log))
    assert first.scores["ubm"].log_likelihood == second.scores["ubm"].log_likelihood


def test_another_file_can_be_the_judge(log, tmp_path):
    other = write_log(tmp_path / "other", seed=5, lists=500)
    fitted = fit(read_logs(log), held_out=read_logs(other))
    assert (fitted.trained_on, fitted.judged_on) == (6000, 500)
    inside = fit(read_logs(log)).scores["ubm"].log_likelihood
    assert fitted.scores["ubm"].log_likelihood == pytest.approx(inside, abs=0.03)


def test_unknown_items_of_the_other_file_are_new_ones(log, tmp_path):
    strange = write_log(tmp_path / "strange", lists=300, names=lambda item: f"x{item}")
    fitted = fit(read_logs(log), held_out=read_logs(strange))
    assert fitted.scores["ubm"].log_likelihood < fit(read_logs(log)).scores["ubm"].log_likelihood - 0.02


def test_cm_and_dcm_give_tables_too(log):
    cascade = fit(read_logs(log), model="cm")
    np.testing.assert_array_equal(cascade.examination, np.eye(1, 4)[[0] * 4])
    dependent = fit(read_logs(log), model="dcm")
    assert dependent.examination[3, 0] == pytest.approx(1.0)  # without a click nobody has left
    assert any("DCM is no UBM" in note for note in dependent.notes)
    satisfied = fit(read_logs(log), model="dbn")
    assert satisfied.examination.max() == 1.0
    assert any("DBN is no UBM" in note for note in satisfied.notes)
    assert any(line.startswith("dcm, as asked, is behind ubm") for line in verdict(dependent))


def test_the_table_of_dcm_is_what_counting_finds():
    items, clicks = [[1, 2, 3], [2, 1, 3], [3, 1, 2]], [[1, 0, 0], [1, 0, 1], [0, 1, 1]]
    model = DCM().fit(items, clicks)
    reads = {}  # (k, k′) -> chances that a user still reads there
    for shown, clicked in zip(items, clicks, strict=True):
        reading, last = 1.0, 0
        for k, (item, click) in enumerate(zip(shown, clicked, strict=True)):
            reads.setdefault((k, last), []).append(reading)
            attracts = model.attractiveness([item])[0]
            passed = reading * (1 - attracts) / (1 - reading * attracts)
            reading, last = (model.continuation[k], k + 1) if click else (passed, last)
    table, observations = model.examination_of(items, clicks)
    for (k, last), chances in reads.items():
        assert table[k, last] == pytest.approx(np.mean(chances))
        assert observations[k, last] == len(chances)
    assert table[2, 0] == pytest.approx(np.mean([table[2, 1], table[2, 2]]))  # never met: its row's mean


@pytest.mark.parametrize("model", SPECIAL_CASES)
def test_users_of_each_model_are_told_by_their_own(model):
    """One seed each; twenty in make soak."""
    fitted = fit(browsed_log(model, seed=3, lists=8000))
    assert is_right(model, fitted.tied), fitted.tied


def test_a_log_that_tells_nothing_of_its_items_is_said_to_and_models_tie():
    log = browsed_log("pbm", seed=1, lists=400)
    log = replace(log, items=np.arange(400 * POSITIONS).reshape(400, POSITIONS), item_ids=list(range(400 * POSITIONS)))
    fitted = fit(log)
    said = " ".join(verdict(fitted))
    assert "no model is surely better than a click rate per position" in said
    assert len(fitted.tied) > 1
    assert "a tie: " in said


@pytest.mark.parametrize("true", [0.075, 0.55])
def test_the_scale_is_a_convention_and_few_rows_do_not_set_it(true):
    table, observations = np.array([[true, 0.0], [true / 2, 0.9]]), np.array([[5000, 0], [4990, 10]])
    rescaled, factor = scaled(table, observations)
    np.testing.assert_allclose(rescaled, [[1.0, 0.0], [0.5, 1.0]])
    assert factor == true


def test_a_picture_is_well_formed():
    from xml.etree import ElementTree

    root = ElementTree.fromstring(svg_map(np.array([0.9, 0.4]), np.array([5, 0])))
    assert root.tag.endswith("svg")
    assert "any k′: 0.4000 from 0 rows" in "".join(root.itertext())


def test_what_cannot_be_fitted_is_said(tmp_path, log):
    with pytest.raises(LogError, match=r"has too few sessions \(2 lists\) to hold some back"):
        fit(read_logs(write_log(tmp_path / "small", lists=2)))
    with pytest.raises(ValueError, match=r"model must be one of cm, ccm, pbm, .*; got 'magic'"):
        fit(read_logs(log), model="magic")
    numbers = write_log(tmp_path / "numbers", lists=10, names=int)
    with pytest.raises(LogError, match=r"item ids are '0' in log.jsonl and 0 in numbers"):
        fit(read_logs(log), held_out=read_logs(numbers))


def test_the_command(log, tmp_path):
    runner = CliRunner()
    done = runner.invoke(cli, ["fit", str(log), "--model", "pbm", "--out", str(tmp_path / "t.json")])
    assert done.exit_code == 0, done.output
    assert read_examination(tmp_path / "t.json").shape == (4,)
    assert runner.invoke(cli, ["fit", str(log), "--model", "magic"]).exit_code == 2
