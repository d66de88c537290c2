"""The process from which Spark forks its Python workers: it has loaded what an audit takes, so that none of them loads
it again. Spark starts it by the name of this module, as it would start pyspark's own."""

from __future__ import annotations

import gc

from pyspark import daemon

from fsm.logs import formats
from fsm.spark import pipeline  # noqa: F401  loaded for the workers
from fsm.spark.columns import leave_pandas_out

if __name__ == "__main__":
    leave_pandas_out()
    formats()
    gc.freeze()  # each worker does so again, after its first task
    daemon.manager()
