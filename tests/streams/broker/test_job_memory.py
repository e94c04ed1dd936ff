"""What a job frees is kept for what comes next, and all of it is given back when it is told to, whoever freed it."""

import subprocess
import sys

BATCHES = """
import resource, sys
from streams.broker import keep_freed_memory
if sys.argv[1] == "kept":
    keep_freed_memory()

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

def batch():
    return [b"x" * (8 << 20) for _ in range(8)]

batch()
before = faults()
for _ in range(10):
    batch()
print(faults() - before)
"""
PAGES = 10 * 8 * (8 << 20) // 4096  # that all these batches fill


def faults(how):
    found = subprocess.run([sys.executable, "-c", BATCHES, how], capture_output=True, text=True, check=True)
    return int(found.stdout)


def test_batches_that_come_one_after_another_use_the_same_pages():
    assert faults("kept") < PAGES / 20 < PAGES / 2 < faults("given back")


THREAD = """
import threading
import psutil
from streams.broker import give_memory_back, keep_freed_memory
keep_freed_memory()

def work():
    del [b"x" * 100_000 for _ in range(400)][:]
    freed.set()
    over.wait()

freed, over = threading.Event(), threading.Event()
before = psutil.Process().memory_info().rss
threading.Thread(target=work, daemon=True).start()
freed.wait()
held = psutil.Process().memory_info().rss
give_memory_back()
print(held - before, psutil.Process().memory_info().rss - before)
"""


def test_what_a_thread_has_freed_is_given_back_too():
    found = subprocess.run([sys.executable, "-c", THREAD], capture_output=True, text=True, check=True)
    held, left = map(int, found.stdout.split())
    assert held > 30 << 20
    assert left < 5 << 20
