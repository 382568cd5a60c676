"""Makes `src/headwater/jvm/headwater.jar` from its Java sources; needs a JDK's `javac`.

The jar is kept in the repository so that users need no compiler. It carries the digest of its
sources, by which a test sees that they belong together.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import tempfile
import zipfile
from hashlib import sha256
from pathlib import Path

from headwater.local.jars import JarSet, jar_paths

_ROOM = Path(__file__).parent.parent / "src/headwater/jvm"
_EPOCH = (1980, 1, 1, 0, 0, 0)


def sources() -> list[Path]:
    return sorted((_ROOM / "java").rglob("*.java"))


def digest() -> str:
    return sha256(b"".join(source.read_bytes() for source in sources())).hexdigest()[:32]


def build() -> None:
    pyspark = importlib.util.find_spec("pyspark")
    assert pyspark is not None
    assert pyspark.origin is not None
    spark_jars = Path(pyspark.origin).parent / "jars" / "*"
    with tempfile.TemporaryDirectory() as folder:
        used = jar_paths([JarSet.DELTA, JarSet.KAFKA, JarSet.POSTGRES])
        classpath = os.pathsep.join([str(spark_jars), *map(str, used)])
        command = ["javac", "--release", "17", "-g:none", "-cp", classpath, "-d", folder]
        subprocess.run([*command, *map(str, sources())], check=True)
        with zipfile.ZipFile(_ROOM / "headwater.jar", "w") as jar:
            manifest = f"Manifest-Version: 1.0\nSource-Digest: {digest()}\n\n"
            _add(jar, "META-INF/MANIFEST.MF", manifest.encode())
            for file in sorted(Path(folder).rglob("*.class")):
                _add(jar, str(file.relative_to(folder)), file.read_bytes())


def _add(jar: zipfile.ZipFile, name: str, content: bytes) -> None:
    jar.writestr(zipfile.ZipInfo(name, _EPOCH), content)


if __name__ == "__main__":
    build()
