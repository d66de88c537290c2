"""The process from which Spark forks its Python workers, with the audit's modules already imported.

Spark starts it by the name of this module, instead of pyspark's own daemon.
"""

from __future__ import annotations

import gc

from pyspark import daemon

from fsm.logs import formats
from fsm.spark import pipeline  # noqa: F401  imported for the workers
from fsm.spark.columns import skip_pandas

if __name__ == "__main__":
    skip_pandas()
    formats()
    gc.freeze()  # each worker does so again, after each task
    daemon.manager()
