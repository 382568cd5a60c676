from headwater.errors import KeyNotUnique, Location
from headwater.runtime.failures import explained

APP = Location("/project/app.py", 10)
TRACEBACK = """Traceback (most recent call last):
  File "/env/site-packages/pyspark/worker.py", line 1, in main
  File "/project/app.py", line 42, in double
    return 2 / value
ZeroDivisionError: division by zero
"""


def test_the_users_own_line_comes_first() -> None:
    error = explained("t", APP, ["Job aborted", TRACEBACK], last_batch=3)
    assert error.where == Location("/project/app.py", 42)
    assert error.found == "ZeroDivisionError: division by zero"
    assert "up to batch 3" in (error.data or "")


def test_without_a_python_frame_the_innermost_cause_speaks() -> None:
    messages = ["[STREAM_FAILED] Query failed", "[TASK_WRITE_FAILED] Task failed", "Disk full"]
    error = explained("t", APP, messages, last_batch=None)
    assert (error.where, error.found) == (APP, "Disk full")
    assert "no batch" in (error.data or "")


def test_our_own_error_inside_a_batch_keeps_its_code_and_remedy() -> None:
    ours = str(KeyNotUnique("t", ["device"], 4))
    message = f'Traceback\n  File "x.py", line 1\nheadwater.errors.KeyNotUnique: {ours}\n\nat org'
    error = explained("t", APP, ["Python proxy", message], last_batch=3)
    assert (error.found or "").startswith("KEY_NOT_UNIQUE: table 't'")
    assert "name every grouping column" in (error.found or "")


def test_sparks_dump_of_the_query_is_left_out() -> None:
    error = explained("t", APP, ["Broken\n=== Streaming Query ===\nIdentifier"], last_batch=None)
    assert error.found == "Broken"
