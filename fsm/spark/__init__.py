"""The audit on Spark: read, parse, judge and report logs of any size. The only package that knows pyspark."""
