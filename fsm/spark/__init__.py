"""The audit on Spark: read, parse, judge and report logs of any size. The only package that knows pyspark.

* `audit_logs`, `Options`, `Result`: what `fsm audit` runs, into a folder with the report, the document and Parquet
"""

from typing import TYPE_CHECKING

from fsm.exports import on_demand

if TYPE_CHECKING:
    from fsm.spark.audit import Result, audit_logs
    from fsm.spark.options import Options

__all__ = ["Options", "Result", "audit_logs"]

__getattr__ = on_demand(
    __name__,
    {"audit": ("Result", "audit_logs"), "options": ("Options",)},
)
