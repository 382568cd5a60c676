import subprocess
import sys


def test_importing_headwater_imports_no_spark() -> None:
    code = "import headwater, headwater.connectors, sys; print('pyspark' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == "False"
