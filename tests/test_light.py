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


def loaded_by(statement, among=HEAVY):
    """Which of these, heavy packages if nothing is said, a fresh interpreter has loaded after the statement."""
    code = f"{statement}; import sys; print(*sorted(set({among!r}) & set(sys.modules)))"
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


def test_help_and_version_load_neither_the_audit_nor_the_coordinator():
    """All commands are registered, and none is loaded with what it does."""
    parts = ("fsm.coordinator", "fsm.member", "fsm.tables", "fsm.audit.findings", "fsm.logs.layouts.layout", *HEAVY)
    assert loaded_by("from fsm import cli; cli.parser()", parts) == []


def test_an_audit_loads_no_coordinator_and_no_mail():
    """What a group is judged by knows the protocols from their logs, and unescapes a line without `urllib`."""
    parts = ("fsm.coordinator", "email", "pandas")
    assert loaded_by("import fsm.audit.group_audit, fsm.spark.pipeline, fsm.spark.tables", parts) == []


def test_an_audit_in_this_process_makes_arrays_without_pandas():
    """pyarrow imports pandas for its first array, unless told that there is none; it can make frames all the same."""
    arrays = "import pyarrow as pa; pa.array(['a', None]); pa.RecordBatch.from_pylist([{'a': 1}])"
    assert loaded_by(arrays) == ["numpy", "pandas", "pyarrow"]
    ours = "from fsm.spark.columns import skip_pandas; skip_pandas()"
    assert loaded_by(f"{ours}; {arrays}") == ["numpy", "pyarrow"]
    assert "pandas" in loaded_by(f"{ours}; {arrays}; assert len(pa.table({{'a': [1]}}).to_pandas()) == 1")


def test_the_check_would_see_a_heavy_import():
    """`fsm.machine` is the module that needs `transitions`; the probe reports it."""
    assert loaded_by("import fsm.machine") == ["transitions"]
