"""A real standalone Spark cluster on this machine: a master and some workers.

The service is one process that starts them all and ends them with itself:
`python -m headwater.local.cluster HOME PORT`.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import urllib.request
from dataclasses import asdict, dataclass
from pathlib import Path
from types import FrameType

from headwater.events import Report
from headwater.local.cache import replace_text
from headwater.local.java import find_java
from headwater.local.ports import HOST, free_port
from headwater.local.service import Launch, Service

_MASTER = "org.apache.spark.deploy.master.Master"
_WORKER = "org.apache.spark.deploy.worker.Worker"
_ENDS_S = 10.0


@dataclass(frozen=True, slots=True)
class ClusterShape:
    """How many workers there are, and what each offers to executors."""

    workers: int = 2
    cores: int = 1
    memory: str = "1g"


class SparkCluster(Service):
    name = "spark"
    version = "4.2"
    title = "Spark cluster"

    def prepare(self, home: Path, *, report: Report) -> None:
        if not (home / "shape.json").exists():
            write_shape(home, ClusterShape())

    def launch(self, home: Path, port: int) -> Launch:
        replace_text(home / "ui", f"{free_port(avoid=frozenset({port}))}\n")
        argv = [sys.executable, "-m", "headwater.local.cluster", str(home), str(port)]
        return Launch(argv, environment=_environment(), folder=home)

    def is_ready(self, home: Path, port: int) -> bool:
        """Whether the master knows every worker."""
        return alive_workers(home) >= read_shape(home).workers

    def connection(self, home: Path, port: int) -> dict[str, str]:
        return {"master": f"spark://{HOST}:{port}"}


def write_shape(home: Path, shape: ClusterShape) -> None:
    home.mkdir(parents=True, exist_ok=True)
    replace_text(home / "shape.json", json.dumps(asdict(shape)) + "\n")


def read_shape(home: Path) -> ClusterShape:
    return ClusterShape(**json.loads((home / "shape.json").read_text(encoding="utf-8")))


def alive_workers(home: Path) -> int:
    """How many workers the master counts as alive; 0 where it does not answer."""
    address = f"http://{HOST}:{(home / 'ui').read_text(encoding='utf-8').strip()}/json/"
    try:
        with urllib.request.urlopen(address, timeout=2) as answer:
            return int(json.load(answer)["aliveworkers"])
    except (OSError, ValueError, KeyError):
        return 0


def start_worker(home: Path, port: int, number: int) -> subprocess.Popen[bytes]:
    """One more worker of the cluster below `home`."""
    shape = read_shape(home)
    folder = home / "work" / str(number)
    folder.mkdir(parents=True, exist_ok=True)
    argv = [_WORKER, "--host", HOST, "--webui-port", "0", "--work-dir", str(folder)]
    argv += ["--cores", str(shape.cores), "--memory", shape.memory, f"spark://{HOST}:{port}"]
    return _java(argv)


def _java(argv: list[str]) -> subprocess.Popen[bytes]:
    import pyspark

    program = Path(pyspark.__file__).parent / "bin" / "spark-class"
    return subprocess.Popen([str(program), *argv], env=_environment())


def _environment() -> dict[str, str]:
    # Settings of other Spark programs would be obeyed by these.
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SPARK_")}
    paths = [str(Path(__file__).parents[2]), kept.get("PYTHONPATH", "")]
    return {
        **kept,
        "JAVA_HOME": str(find_java().home),
        "SPARK_LOCAL_IP": HOST,
        "SPARK_DAEMON_MEMORY": "256m",
        "PYTHONPATH": os.pathsep.join(path for path in paths if path),
    }


def main(home: Path, port: int) -> int:
    """Runs until a signal, or until the master ends; then everything has ended."""
    is_over = threading.Event()

    def end(number: int, frame: FrameType | None) -> None:
        is_over.set()

    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGINT, end)
    ui = (home / "ui").read_text(encoding="utf-8").strip()
    master = _java([_MASTER, "--host", HOST, "--port", str(port), "--webui-port", ui])
    workers = [start_worker(home, port, number) for number in range(read_shape(home).workers)]
    pids = {"master": master.pid, "workers": [worker.pid for worker in workers]}
    replace_text(home / "processes.json", json.dumps(pids) + "\n")
    try:
        while not is_over.wait(0.5):
            if master.poll() is not None:
                return 1
            for worker in workers:
                worker.poll()
    finally:
        for process in [*workers, master]:
            process.terminate()
        for process in [*workers, master]:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(timeout=_ENDS_S)
            process.kill()
    return 0


if __name__ == "__main__":
    raise SystemExit(main(Path(sys.argv[1]), int(sys.argv[2])))
