"""Which questions Spark may answer inside a driver that has other work."""

import pytest

from headwater.errors import SqlRefused
from headwater.sql.questions import asked_of


@pytest.mark.parametrize(
    ("text", "spark"),
    [
        ("SELECT * FROM Readings LIMIT 10", "SELECT * FROM v AS Readings LIMIT 10"),
        (
            "SELECT r.device, count(*) FROM readings r WHERE r.at > '2026-01-01' GROUP BY 1",
            "SELECT r.device, COUNT(*) FROM v AS r WHERE r.at > '2026-01-01' GROUP BY 1",
        ),
        (
            "SELECT max(n) FROM (SELECT count(*) AS n FROM readings GROUP BY device)",
            "SELECT MAX(n) FROM (SELECT COUNT(*) AS n FROM v AS readings GROUP BY device)",
        ),
    ],
)
def test_a_plain_question_is_asked_of_a_view(text: str, spark: str) -> None:
    assert asked_of(text, "readings", "v") == spark


@pytest.mark.parametrize(
    "text",
    [
        "DROP TABLE readings",
        "SELECT 1; SELECT 2",
        "SELECT * FROM other",
        "SELECT * FROM parquet.readings",
        "SELECT count(*) FROM readings a CROSS JOIN readings b",
        "SELECT count(*) FROM readings a, readings b",
        "SELECT count(*) FROM readings CROSS JOIN range(100000000)",
        "SELECT * FROM readings UNION ALL SELECT * FROM readings",
        "SELECT * FROM readings WHERE x > (SELECT avg(x) FROM readings)",
        "SELECT 1 FROM readings WHERE EXISTS (SELECT 1)",
        "SELECT repeat('x', 2000000000) FROM readings",
        "SELECT concat(device, device) FROM readings",
        "SELECT device || device FROM readings",
        "SELECT collect_list(device) FROM readings",
        "SELECT explode(sequence(1, 1000000000)) FROM readings",
        "SELECT * FROM readings LATERAL VIEW explode(sequence(1, 1000000000)) AS n",
        "SELECT sum(x) OVER (ORDER BY y) FROM readings",
        "SELECT /*+ REPARTITION(100000) */ * FROM readings",
        "SELECT a, b, count(*) FROM readings GROUP BY CUBE (a, b)",
        "SELECT java_method('java.lang.System', 'exit', 1) FROM readings",
    ],
)
def test_what_could_take_the_driver_down_is_refused(text: str) -> None:
    with pytest.raises(SqlRefused):
        asked_of(text, "readings", "v")
