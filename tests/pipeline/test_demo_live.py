"""The demo on Kafka: the same loop through real join and learn processes."""

from dataclasses import replace

from streams.demo.command import run


def test_the_demo_runs_on_the_real_jobs(settings_for, tmp_path, capsys):
    settings = replace(settings_for(), timestamps="LogAppendTime")
    scores = run(lists=6000, seed=1, out=tmp_path, kafka=settings)
    printed = capsys.readouterr().out
    learned = {score.bucket: score for score in scores}
    assert sum(score.lists for score in scores) == 6000
    assert "6,000 lists" in printed.split("impressions =")[1]
    assert learned["ubm-linucb"].distance == min(score.distance for score in scores if score.distance is not None)
    assert (tmp_path / "report.html").exists()
