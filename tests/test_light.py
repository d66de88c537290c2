"""`import fsm` is light: a program that only steps tables pays for nothing else."""

import subprocess
import sys

HEAVY = (
    "pyspark",
    "pandas",
    "numpy",
    "pyarrow",
    "graphviz",
    "transitions",
    "hypothesis",
    "pytest",
    "kio",
    "confluent_kafka",
    "yaml",
    "structlog",
    "duckdb",
    "jinja2",
)


def loaded_by(statement):
    """The heavy packages that a fresh interpreter has loaded after the statement."""
    code = f"{statement}; import sys; print(*sorted(set({HEAVY!r}) & set(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env={"PYTHONPATH": ":".join(sys.path)}
    )
    return done.stdout.split()


def test_importing_fsm_loads_nothing_heavy():
    """Neither Spark and its friends, nor the runtime, the drawing and the testing tools come with `import fsm`."""
    assert loaded_by("import fsm") == []


def test_the_tables_and_the_documents_are_as_light():
    """Listing every table, reading traces and the document module itself need none of them either."""
    assert loaded_by("import fsm, fsm.tables, fsm.trace, fsm.document; fsm.tables.ALL[0].compiled") == []


def test_the_check_would_see_a_heavy_import():
    """`fsm.machine` is the module that needs `transitions`; the probe reports it."""
    assert loaded_by("import fsm.machine") == ["transitions"]
