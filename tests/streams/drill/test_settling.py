"""When a drill calls a fault recovered."""

from types import SimpleNamespace

from streams.drill.job.run import Drill


class LearnsAllAtOnce:
    """Places that have nothing at the first look, and all that was written at every later one."""

    def __init__(self):
        self.looks = 0

    def lists(self):
        self.looks += 1
        return 10 if self.looks > 1 else 0

    def differences(self, golden):
        self.looks += 1
        return () if self.looks > 1 else ("ubm has 0 of 10 lists on Kafka",)


def test_lists_that_are_all_learned_between_two_looks_have_recovered():
    workers, load = SimpleNamespace(tend=lambda: None), SimpleNamespace(error=None, is_alive=lambda: False)
    drill = Drill(None, None, workers, LearnsAllAtOnce())
    recovered_s, differences = drill._settle(load, written=10)
    assert recovered_s is not None
    assert differences == ()
