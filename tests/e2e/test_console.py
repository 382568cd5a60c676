"""The console in a real Chromium, against one running pipeline; screenshots are kept, and those of
the docs are made anew with DOCS_ASSETS=1 in the environment."""

from __future__ import annotations

import datetime as dt
import importlib.util
import json
import os
import re
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable
from prometheus_client.parser import text_string_to_metric_families

from headwater.local.processes import wait_until

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator, Page

HERE = Path(__file__).parent
SHOTS = HERE.parents[1] / "screenshots"
ASSETS = HERE.parents[1] / "docs" / "assets"
WAIT_S = 600.0
LAPTOP = {"width": 1280, "height": 800}
PHONE = {"width": 390, "height": 844}
START = dt.datetime.now(dt.UTC).replace(microsecond=0) - dt.timedelta(minutes=10)
LATE = (START - dt.timedelta(hours=1)).isoformat()
EVIL = "<img src=x onerror=alert(1)>"

APP = """
from pyspark.sql import functions as F

from headwater import Pipeline
from headwater.connectors import csv, foreach_batch, json, memory

fleet = Pipeline("fleet")
fleet.source("signals", json("in"), schema="device string, at timestamp, celsius double",
             event_time="at", watermark="10 seconds", max_per_batch="1 file")
fleet.lookup("sites", csv("sites.csv"), schema="device string, site string")


@fleet.view
def readings(signals, sites):
    return signals.join(F.broadcast(sites), "device", "left")


@fleet.table(trigger="300 milliseconds")
def raw(readings):
    return readings


@fleet.table(mode="append", trigger="100 milliseconds")
def ten_seconds(readings):
    return (readings.groupBy(F.window("at", "10 seconds"), "device")
            .agg(F.avg("celsius").alias("celsius"))
            .select("device", F.col("window.start").alias("start"), "celsius"))


@fleet.table(into=memory(), trigger="300 milliseconds")
def newest(readings):
    return readings.select("device", "celsius")


def closeness(usual, rows):
    error = F.avg(F.abs(F.col("celsius") - F.col("usual")))
    return -rows.join(usual, "device").agg(error).first()[0]


@fleet.model(trained_on="raw", every="1 hour", schema="device string, usual double",
             evaluate=closeness)
def usual(rows):
    return rows.groupBy("device").agg(F.avg("celsius").alias("usual"))


def refuse(frame, batch):
    raise ValueError("the shop is closed")


@fleet.table(into=foreach_batch(refuse))
def broken(readings):
    return readings
"""


def feed(folder: Path, number: int) -> None:
    """A file with 40 readings, one of them late and one that does not parse."""
    start = START + dt.timedelta(seconds=30 * number)
    rows = [
        {
            "device": EVIL if i == 7 else f"d{i % 3}",
            "at": (start + dt.timedelta(milliseconds=500 * i)).isoformat(),
            "celsius": 20 + i % 5,
        }
        for i in range(40)
    ]
    rows[3]["at"] = LATE
    lines = [json.dumps(row) for row in rows] + ["{broken"]
    beside = folder / f".{number}"
    beside.write_text("\n".join(lines) + "\n")
    # Files are read in the order of their times.
    os.utime(beside, (START.timestamp() + number, START.timestamp() + number))
    beside.rename(folder / "in" / f"{number:03}.json")


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("fleet")
    (folder / "in").mkdir()
    (folder / "app.py").write_text(APP)
    (folder / "sites.csv").write_text(f'device,site\nd0,north\nd1,south\n"{EVIL}",east\n')
    (folder / "headwater.toml").write_text("[profile.local]\nrestarts = 0\n")
    for number in range(10):
        feed(folder, number)
    return folder


class Run:
    """`headwater run --console` and what it prints."""

    def __init__(self, project: Path) -> None:
        self.project = project
        command = [
            "run",
            "app.py",
            "--console",
            "--metrics",
            "0",
            "--connect",
            "--driver-memory",
            "1500m",
        ]
        self.log = open(project / "run.log", "w+")  # noqa: SIM115 - closed by `end`
        self.process = subprocess.Popen(
            [sys.executable, "-m", "headwater.cli.main", *command],
            cwd=project,
            env={**os.environ, "HEADWATER_MASTER": "local[2]"},
            stdout=self.log,
            stderr=subprocess.STDOUT,
        )

    @property
    def output(self) -> str:
        return (self.project / "run.log").read_text()

    def until(self, pattern: str) -> re.Match[str]:
        def is_over() -> bool:
            return bool(re.search(pattern, self.output)) or self.process.poll() is not None

        assert wait_until(is_over, timeout_s=WAIT_S), self.output
        found = re.search(pattern, self.output)
        assert found is not None, self.output
        return found

    def end(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        code = self.process.wait(timeout=WAIT_S)
        self.log.close()
        return code


@pytest.fixture(scope="module")
def run(project: Path) -> Iterator[Run]:
    found = Run(project)
    try:
        found.until(r"ten_seconds: batch(es \d+ to)? (9|1\d)")
        found.until(r"raw: batch(es \d+ to)? 9")
        found.until(r"broken: failed")
        found.until(r"signals: .* rejected")
        found.until(r"kept in ten_seconds__late")
        found.until(r"usual: version 1 used")
        yield found
    finally:
        if found.process.poll() is None:
            found.end()


@pytest.fixture(scope="module")
def address(run: Run) -> str:
    return run.until(r"console: (\S+)").group(1)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    from playwright.sync_api import sync_playwright

    spec = importlib.util.spec_from_file_location("chromium", HERE / "chromium.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    with sync_playwright() as playwright:
        path = module.chromium(playwright.chromium.executable_path)
        # Chromium refuses its sandbox to root.
        arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
        found = playwright.chromium.launch(executable_path=path, args=arguments)
        yield found
        found.close()


Open = Callable[..., "Page"]


@pytest.fixture
def open_page(browser: Browser, address: str) -> Iterator[Open]:
    """A page of the console; whatever it complains about fails the test."""
    complaints: list[str] = []
    contexts = []

    def begin(hash: str = "", *, size: Any = LAPTOP, scheme: Any = "light", at: str = "") -> Page:
        context = browser.new_context(viewport=size, color_scheme=scheme)
        context.set_default_timeout(60_000)
        contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("dialog", lambda dialog: complaints.append(f"dialog {dialog.message}"))
        page.goto(at or address)
        page.wait_for_selector("h1")
        if hash:
            go(page, hash)
        return page

    yield begin
    for context in contexts:
        context.close()
    assert complaints == []


def go(page: Page, hash: str) -> None:
    page.wait_for_selector("#tabs a")
    page.evaluate("hash => { location.hash = hash }", hash)


def shoot(page: Page, name: str) -> None:
    """Also what does not fit the window sideways fails."""
    SHOTS.mkdir(exist_ok=True)
    page.screenshot(path=SHOTS / f"{name}.png", full_page=True)
    width = page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
    assert width <= 0, f"{name} is wider than the window by {width}"


def shoot_for_docs(page: Page, name: str, *, height: float) -> None:
    """The upper part of the page."""
    clip: Any = {"x": 0.0, "y": 0.0, "width": float(LAPTOP["width"]), "height": height}
    page.screenshot(path=SHOTS / name, clip=clip, full_page=True)
    if os.environ.get("DOCS_ASSETS"):
        (ASSETS / name).write_bytes((SHOTS / name).read_bytes())


def status(run: Run) -> dict[str, Any]:
    """What the pipeline itself says of its tables."""
    command = [sys.executable, "-m", "headwater.cli.main", "status", "--json"]
    done = subprocess.run(command, cwd=run.project, capture_output=True, text=True, timeout=120)
    [found] = json.loads(done.stdout)
    return {table["table"]: table for table in found["tables"]}


def scraped(run: Run) -> dict[tuple[str, str | None], float]:
    """What the pipeline's process counts, by family and table or model."""
    address = run.until(r"metrics: (\S+)").group(1)
    with urllib.request.urlopen(address, timeout=240) as answer:
        families = list(text_string_to_metric_families(answer.read().decode()))
    samples = [sample for family in families for sample in family.samples]
    return {(s.name, s.labels.get("table", s.labels.get("model"))): s.value for s in samples}


def own(run: Run, table: str) -> list[float]:
    """A table's last batch, rows in, late and rejected rows, as the pipeline has them."""
    found, rows = status(run)[table], scraped(run)["headwater_input_rows_total", table]
    return [found["last_batch"], rows, (found["late"] or {"late": 0})["late"], found["rejected"]]


def shown(page: Page, table: str) -> list[float]:
    """The same, as the overview has them."""
    return [number(page, table, fact) for fact in ("batch", "rows", "late", "rejected")]


def number(page: Page, table: str, fact: str) -> int:
    row = page.locator("tr", has=page.get_by_role("link", name=table, exact=True))
    return int(row.locator(f"[data-fact={fact}]").inner_text().replace(",", ""))


def wait_for_number(page: Page, table: str, fact: str, wanted: int) -> None:
    assert wait_until(lambda: number(page, table, fact) == wanted, timeout_s=60)


def stored(run: Run, table: str) -> int:
    return DeltaTable(run.project / ".headwater" / "fleet" / "tables" / table).count()


def test_the_overview_shows_the_graph_and_the_pipelines_own_numbers(
    open_page: Open, run: Run
) -> None:
    page = open_page()
    page.wait_for_selector(".queries")
    names = page.locator(".graph .name").all_text_contents()
    assert {"broken", "raw", "readings", "signals", "sites", "ten_seconds"} <= set(names)
    source = page.locator(".graph .node.source")
    source.locator("circle.running").wait_for()
    assert (source.locator(".detail").text_content() or "").endswith(" rows/s")
    assert "the shop is closed" in page.locator(".trouble").inner_text()
    assert "app.py:" in page.locator(".trouble").inner_text()
    assert wait_until(lambda: shown(page, "raw") == own(run, "raw"), timeout_s=60)
    assert wait_until(lambda: shown(page, "ten_seconds") == own(run, "ten_seconds"), timeout_s=60)
    # Ten files of 41 lines; the late row of the first one meets no watermark yet.
    assert shown(page, "raw") == [9, 410, 0, stored(run, "signals__rejected")]
    assert shown(page, "ten_seconds")[1:] == [410, 9, 10]
    assert status(run)["broken"]["state"] == "failed"
    shoot(page, "overview-laptop-light")
    # In one step: the page may draw the element anew between finding and measuring it.
    top = page.evaluate("document.querySelector('.trouble').getBoundingClientRect().top")
    shoot_for_docs(page, "console-overview.png", height=top - 4)


def test_a_scrape_tells_the_same_numbers(run: Run) -> None:
    found = scraped(run)
    assert found["headwater_last_batch", "raw"] <= status(run)["raw"]["last_batch"]
    assert found["headwater_input_rows_total", "raw"] == 410
    assert found["headwater_output_rows_total", "raw"] == stored(run, "raw") == 400
    assert found["headwater_late_rows_total", "ten_seconds"] == 9
    assert found["headwater_query_failures_total", "broken"] == 1
    assert found["headwater_model_version", "usual"] == 1
    assert found["spark_streaming_batch_duration_seconds", "raw"] > 0


CLIENT = """
import sys
from pyspark.sql import SparkSession

spark = SparkSession.builder.remote(sys.argv[1]).getOrCreate()
print(spark.sql("SELECT count(*) AS n FROM global_temp.raw").first().n)
print(spark.table("global_temp.signals__rejected").count())
"""


def test_a_notebook_attaches_with_the_token_and_not_without(run: Run) -> None:
    address = run.until(r"Spark Connect: (\S+)").group(1)
    without = address.split(";")[0]
    clients = [
        subprocess.Popen(
            [sys.executable, "-c", CLIENT, one],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for one in (address, without)
    ]
    (told, problems), (silence, refused) = [c.communicate(timeout=WAIT_S) for c in clients]
    rows, rejected = map(int, told.split() or pytest.fail(problems))
    assert rows >= 400
    assert rejected >= 1
    assert silence == ""
    assert "UNAUTHENTICATED" in refused


@pytest.mark.parametrize(
    ("name", "size", "scheme"),
    [
        ("laptop-dark", LAPTOP, "dark"),
        ("phone-light", PHONE, "light"),
        ("phone-dark", PHONE, "dark"),
    ],
)
def test_every_page_fits_the_window(open_page: Open, name: str, size: Any, scheme: Any) -> None:
    page = open_page(size=size, scheme=scheme)
    page.wait_for_selector(".queries")
    shoot(page, f"overview-{name}")
    for hash, wanted in {
        "table/ten_seconds": ".chart svg",
        "events": ".timeline .QueryStarted",
        "rows/signals__rejected": "table.rows",
        "models": "main table",
        "doctor": ".good, .advice",
    }.items():
        go(page, f"#/0-fleet/{hash}")
        page.wait_for_selector(wanted)
        shoot(page, f"{hash.replace('/', '-')}-{name}")
    go(page, "#/0-fleet/sql")
    page.fill("#question", "SELECT * FROM raw LIMIT 10")
    page.keyboard.press("Control+Enter")
    page.wait_for_selector("table.rows")
    shoot(page, f"sql-{name}")
    go(page, "#/")
    page.wait_for_selector(".card")
    shoot(page, f"pipelines-{name}")


def test_models_are_listed_with_the_version_in_use_and_its_score(open_page: Open, run: Run) -> None:
    score = run.until(r"usual: version 1 trained .*, score (\S+)").group(1)
    page = open_page("#/0-fleet/models")
    page.get_by_role("heading", name="usual").wait_for()
    assert "version 1 is used" in page.locator("main").inner_text()
    rows = page.locator("main table tbody tr").all_inner_texts()
    assert [row.split("\t")[1:4] for row in rows] == [
        ["published", "1", score],
        ["trained", "1", score],
    ]
    assert page.locator(".chart .legend").inner_text() == score


def test_a_chart_holds_values_below_zero(open_page: Open) -> None:
    page = open_page()
    path = page.evaluate(
        "import('/chart.js').then(({ chart }) => chart({ title: 'Score', times: [1, 2, 3],"
        " format: String, series: [{ name: 'score', color: 1, values: [-1.5, -0.5, -1] }] })"
        ".querySelector('path').getAttribute('d'))"
    )
    heights = [float(place.split(",")[1]) for place in re.split("[ML]", path)[1:]]
    assert all(10 <= height <= 148 for height in heights), path
    assert heights[1] < heights[2] < heights[0]


def test_the_doctors_advice_is_shown_with_its_evidence_and_setting(open_page: Open) -> None:
    page = open_page("#/0-fleet/doctor")
    said = page.locator(".advice", has_text="ten_seconds: batches take longer than the trigger's")
    said.wait_for()
    assert "median of " in said.locator("li").first.inner_text()
    assert said.locator("code").inner_text().startswith('trigger="')
    assert "advice, rule batch_longer_than_trigger" in said.inner_text()


def test_all_pipelines_are_in_one_place(open_page: Open, run: Run) -> None:
    page = open_page("#/")
    card = page.locator(".card")
    card.wait_for()
    assert "fleet" in card.inner_text()
    assert "4 tables" in card.inner_text()
    assert f"process {run.process.pid}" in card.inner_text()
    card.click()
    page.wait_for_selector(".queries")


def test_a_batch_is_seen_within_seconds_and_costs_the_pipeline_no_reading(
    open_page: Open, run: Run
) -> None:
    page, near, far = (
        open_page(),
        open_page("#/0-fleet/rows/raw"),
        open_page("#/0-fleet/rows/newest"),
    )
    reads: list[str] = []
    for one in (near, far):
        one.wait_for_selector("table.rows")
        one.on("request", lambda request: reads.extend(re.findall("rows.table=(.*)", request.url)))
    before, rows = number(page, "raw", "rows"), stored(run, "raw")
    feed(run.project, 10)
    feed(run.project, 11)
    for table in ("raw", "newest"):
        wait_for_number(page, table, "rows", before + 82)
    near.get_by_text(f"of {rows + 80}").wait_for()
    for _ in range(3):
        # A look that began before the batch says nothing; the next ones do.
        far.wait_for_event("response", lambda answer: answer.url.endswith("/api/p/0-fleet"))
    assert "newest" not in reads
    with far.expect_request("**/rows?table=newest"):
        far.get_by_role("button", name="Read again").click()
    assert near.get_by_role("button", name="Read again").count() == 0


WATCHED = {
    "sql": ["SELECT count(*) AS n FROM raw", "--format", "csv", "--watch", "1s"],
    "show": ["raw", "--rows", "1", "--watch", "1s"],
}
TOLD = {"sql": r"^n\n{}$", "show": r"raw: the newest 1 of {} rows$"}


@pytest.fixture
def watches(run: Run) -> Iterator[list[subprocess.Popen[bytes]]]:
    """`sql` and `show` that ask again every second, each into a file of its name."""
    found = []
    for command, words in WATCHED.items():
        with open(run.project / command, "w") as told:
            arguments = [sys.executable, "-m", "headwater.cli.main", command, *words]
            found.append(subprocess.Popen(arguments, cwd=run.project, stdout=told))
    yield found
    for watch in found:
        watch.kill()
        watch.wait()


def test_a_watched_answer_is_told_again_until_it_is_interrupted(
    run: Run, watches: list[subprocess.Popen[bytes]]
) -> None:
    def is_told(rows: int) -> bool:
        texts = {command: (run.project / command).read_text() for command in TOLD}
        return all(re.search(TOLD[c].format(rows), text, re.M) for c, text in texts.items())

    rows = stored(run, "raw")
    assert wait_until(lambda: is_told(rows), timeout_s=120)
    feed(run.project, 12)
    assert wait_until(lambda: is_told(rows + 40), timeout_s=120)
    for watch in watches:
        watch.send_signal(signal.SIGINT)
    assert [watch.wait(timeout=60) for watch in watches] == [0, 0]


def test_charts_tell_the_figures_of_a_table(open_page: Open) -> None:
    page = open_page("#/0-fleet/table/ten_seconds")
    page.wait_for_selector(".chart svg")
    titles = page.locator(".chart .title").all_inner_texts()
    assert titles[:4] == [
        "Rows per second",
        "Rows per batch",
        "Batch time by phase",
        "Event to commit",
    ]
    chart = page.locator(".chart svg").first
    chart.hover()
    assert "processed" in page.locator(".chart .tip").first.inner_text()
    assert "exactly-once" in page.locator(".facts").inner_text()
    shoot(page, "table-laptop-light")
    bottom = page.evaluate("document.querySelector('.charts').getBoundingClientRect().bottom")
    shoot_for_docs(page, "console-table.png", height=bottom + 8)


def test_the_keyboard_alone_reads_the_values_of_a_chart(open_page: Open, run: Run) -> None:
    page = open_page("#/0-fleet/table/raw")
    page.wait_for_selector(".chart svg")
    tab_to(page, "data-key", "chart Rows per batch")
    figure = page.locator(".chart", has_text="Rows per batch")
    tips, batches = [pressed(page, figure, "Home")], stored(run, "raw") // 40
    feed(run.project, 13)
    page.get_by_text(f"{41 * (batches + 1)} rows in this run").wait_for()
    # The page was drawn anew; the place in the chart is kept.
    assert figure.locator(".tip").inner_text() == tips[0]
    tips += [pressed(page, figure, "ArrowRight") for _ in range(batches)]
    rows_out = [int(re.findall(r"out (\d+)", tip)[0]) for tip in tips]
    assert sum(rows_out) == stored(run, "raw")
    assert pressed(page, figure, "End") == tips[-1]
    assert pressed(page, figure, "ArrowLeft") == tips[-2]


def pressed(page: Page, figure: Locator, key: str) -> str:
    """What a chart tells after a key."""
    page.keyboard.press(key)
    return figure.locator(".tip").inner_text()


def test_rows_of_users_stay_text(open_page: Open) -> None:
    page = open_page("#/0-fleet/rows/raw")
    page.wait_for_selector("table.rows")
    assert page.get_by_text(EVIL).count() > 0
    assert page.locator("table.rows img").count() == 0
    go(page, "#/0-fleet/rows/ten_seconds__late")
    page.wait_for_selector("table.rows")
    assert LATE[:19] in page.locator("table.rows").inner_text()


def test_a_question_is_answered_with_a_table_and_a_plot(open_page: Open) -> None:
    page = open_page("#/0-fleet/sql")
    page.fill("#question", "SELECT device, count(*) AS n FROM raw GROUP BY device ORDER BY n DESC")
    page.keyboard.press("Control+Enter")
    page.wait_for_selector("table.rows")
    assert page.locator(".bars .barline").count() == 4
    shoot(page, "sql-laptop-light")
    page.fill("#question", "DROP TABLE raw")
    page.get_by_role("button", name="Ask").click()
    page.wait_for_selector(".problem")
    assert "SQL_REFUSED" in page.locator(".problem").inner_text()


def test_a_cut_connection_is_told_and_comes_back(open_page: Open) -> None:
    page = open_page()
    page.wait_for_selector(".queries")
    page.context.set_offline(True)
    page.wait_for_selector("#banner:not([hidden])")
    assert "cut" in page.locator("#banner").inner_text()
    page.context.set_offline(False)
    page.wait_for_selector("#banner", state="hidden")


def test_a_wrong_token_opens_nothing(open_page: Open, address: str) -> None:
    page = open_page(at=f"{address.split('#')[0]}#token=guessed")
    page.wait_for_selector("#token")
    assert "wrong" in page.locator("main").inner_text()
    page.fill("#token", address.split("token=")[1])
    page.keyboard.press("Enter")
    page.wait_for_selector(".queries")
    assert "token" not in page.url


def test_a_table_is_stopped_and_started_with_the_keyboard_alone(open_page: Open, run: Run) -> None:
    page = open_page()
    page.wait_for_selector(".queries")
    press_on(page, "Stop raw")
    page.wait_for_selector("dialog[open]")
    page.keyboard.press("Enter")
    page.wait_for_selector("button[aria-label='Start raw']")
    assert status(run)["raw"]["state"] == "stopped"
    press_on(page, "Start raw")
    page.wait_for_selector("button[aria-label='Stop raw']")
    assert status(run)["raw"]["state"] == "running"


def press_on(page: Page, name: str) -> None:
    """Reaches a button with Tab and presses Enter."""
    tab_to(page, "aria-label", name)
    page.keyboard.press("Enter")


def tab_to(page: Page, attribute: str, value: str) -> None:
    for _ in range(60):
        page.keyboard.press("Tab")
        if page.evaluate("name => document.activeElement.getAttribute(name)", attribute) == value:
            return
    raise AssertionError(f"{value} was not reached")


def test_history_is_there_after_the_end_and_read_only_shows_no_button(
    open_page: Open, run: Run
) -> None:
    """The last test of this module: it ends the pipeline."""
    page = open_page("#/0-fleet/events")
    page.wait_for_selector(".timeline .QueryFailed")
    shoot(page, "events-laptop-light")
    run.end()
    page.wait_for_selector("#banner:not([hidden])")
    command = [sys.executable, "-m", "headwater.cli.main", "console", "--read-only"]
    console = subprocess.Popen(command, cwd=run.project, stdout=subprocess.PIPE, text=True)
    try:
        assert console.stdout is not None
        own = console.stdout.readline().split()[1]
        later = open_page(at=own)
        later.wait_for_selector(".queries")
        assert "stopped" in later.locator(".queries").inner_text()
        assert later.locator(".queries button").count() == 0
        assert later.get_by_role("button", name="Stop pipeline").count() == 0
        go(later, "#/0-fleet/table/raw")
        later.wait_for_selector(".chart svg")
    finally:
        console.send_signal(signal.SIGINT)
        assert console.wait(timeout=240) == 0
        console.stdout.close()
