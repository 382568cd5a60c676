"""A real HDFS on this machine, in one process: a name node and a data node, from cached jars."""

from __future__ import annotations

import os
import socket
from pathlib import Path

from headwater.events import Report
from headwater.local.cache import replace_text
from headwater.local.jars import JarSet, jar_paths, pyspark_jars
from headwater.local.java import find_java
from headwater.local.ports import HOST
from headwater.local.service import WARNINGS, Launch, Service

_MAIN = "org.apache.hadoop.mapreduce.MiniHadoopClusterManager"
_QUESTION = b"GET / HTTP/1.0\r\n\r\n"
_ANSWER = b"Hadoop IPC"


class Hdfs(Service):
    name = "hdfs"
    version = "3.5.0"
    title = "HDFS name node"

    def prepare(self, home: Path, *, report: Report) -> None:
        jar_paths([JarSet.HDFS], report=report)
        replace_text(home / "log4j2.properties", WARNINGS)

    def launch(self, home: Path, port: int) -> Launch:
        (home / "started.json").unlink(missing_ok=True)
        options = ["-nomr", "-nnport", str(port), "-nnhttpport", "0", "-datanodes", "1"]
        options += ["-writeDetails", str(home / "started.json")]
        if not (home / "data/name-0-1/current/VERSION").exists():
            options.append("-format")
        options += ["-D", f"hdfs.minidfs.basedir={home / 'data'}"]
        options += ["-D", f"hadoop.tmp.dir={home / 'temporary'}"]
        return Launch([*_java(home), _MAIN, *options], environment=dict(os.environ), folder=home)

    def is_ready(self, home: Path, port: int) -> bool:
        """A name node tells whoever asks for a page that it speaks another protocol."""
        if not (home / "started.json").exists():
            return False
        try:
            with socket.create_connection((HOST, port), timeout=2) as connection:
                connection.sendall(_QUESTION)
                return _ANSWER in connection.recv(4096)
        except OSError:
            return False

    def connection(self, home: Path, port: int) -> dict[str, str]:
        return {"storage": f"hdfs://{HOST}:{port}/headwater"}


def _java(home: Path) -> list[str]:
    """With the classes of Hadoop that PySpark brings."""
    paths = [*map(str, jar_paths([JarSet.HDFS])), f"{pyspark_jars()}/*"]
    return [
        str(find_java().executable),
        "-Xmx384m",
        "-XX:TieredStopAtLevel=1",
        f"-Dlog4j2.configurationFile={(home / 'log4j2.properties').as_uri()}",
        "-cp",
        os.pathsep.join(paths),
    ]
