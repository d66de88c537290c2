"""The audit on Spark: reads, parses, judges and reports logs of any size. The only package that imports pyspark.

* `audit_logs`, `Options`, `Result`: run `fsm audit` into a folder with the report, the document and Parquet
"""

from typing import TYPE_CHECKING

from fsm.exports import on_demand

if TYPE_CHECKING:
    from fsm.spark.audit import Result, audit_logs
    from fsm.spark.options import Options

__all__ = ["Options", "Result", "audit_logs"]

__getattr__, __dir__ = on_demand(
    __name__,
    {"audit": ("Result", "audit_logs"), "options": ("Options",)},
)
