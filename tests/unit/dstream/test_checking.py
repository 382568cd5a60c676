"""What `headwater dstream check` says about a program."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.cli.main import main
from headwater.dstream.checking import Verdict, check

OLD = """\
from pyspark import SparkConf, SparkContext
from pyspark.streaming import StreamingContext
from pyspark.streaming.kafka import KafkaUtils

sc = SparkContext(appName="x")
ssc = StreamingContext(sc, 1)
lines = ssc.socketTextStream("localhost", 9999)
lines.map(lambda line: line.split(" ")).window(30, 10).pprint()
ssc.start()
ssc.awaitTermination()
"""


def test_import_lines_are_given_as_they_have_to_be() -> None:
    assert [(one.line, one.new) for one in check(OLD).imports] == [
        (1, "from headwater.dstream import SparkContext\nfrom pyspark import SparkConf"),
        (2, "from headwater.dstream import StreamingContext"),
        (3, "from headwater.dstream.kafka import KafkaUtils"),
    ]


def test_imports_of_every_form_are_changed_and_names_kept() -> None:
    forms = {
        "import pyspark.streaming as ps": "import headwater.dstream as ps",
        "from pyspark.streaming import StreamingContext as SC": (
            "from headwater.dstream import StreamingContext as SC"
        ),
        "from pyspark import SparkContext as Context": (
            "from headwater.dstream import SparkContext as Context"
        ),
        "from pyspark.streaming.kinesis import KinesisUtils, InitialPositionInStream": (
            "(remove it)"
        ),
    }
    for old, new in forms.items():
        assert [one.new for one in check(old).imports] == [new]
    assert check("import os\nfrom pyspark import SparkConf").imports == ()


def test_texts_and_paths_have_methods_of_the_same_names() -> None:
    assert check('", ".join(words)\nos.path.join("a", "b")\n"a".count("b")').findings == ()
    assert [one.name for one in check("visits.join(clicks)").findings] == ["join"]


def test_uses_are_listed_with_what_differs() -> None:
    found = {finding.name: finding for finding in check(OLD).findings}
    assert found["map"].verdict is Verdict.RUNS
    assert found["window"].line == 8
    assert found["socketTextStream"].verdict is Verdict.DIFFERS
    assert "stored before" in found["socketTextStream"].note


def test_what_has_no_counterpart_names_another_way() -> None:
    checked = check("KafkaUtils.createStream(ssc, zk, group, topics)\n")
    [finding] = checked.findings
    assert not checked.runs
    assert finding.verdict is Verdict.MISSING
    assert "createDirectStream" in finding.note


def test_the_command_prints_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program = tmp_path / "program.py"
    program.write_text(OLD)
    assert main(["dstream", "check", str(program)]) == 0
    printed = capsys.readouterr().out
    assert "-> from headwater.dstream import StreamingContext" in printed
    assert "line 8: window" in printed
    program.write_text("x.mapWithState(f)\n")
    assert main(["dstream", "check", str(program)]) == 1
    assert main(["dstream", "check", str(tmp_path / "missing.py")]) == 2
    assert "DSTREAM_PROGRAM_UNREADABLE" in capsys.readouterr().err
