# Reads a Parquet file over its URL as data scientists do, and compares it with the file itself:
# read_parquet.py URL PATH. Prints how many times the URL was asked, in each of the ways, as JSON.
import json
import os
import sys

import fsspec
import pandas as pd
import pyarrow.dataset as ds
import pyarrow.parquet as pq

url, path = sys.argv[1:]
known = pq.read_table(path)

assert pd.read_parquet(url).equals(known.to_pandas()), "pandas"

http = fsspec.filesystem("http", block_size=65_536)
with http.open(url) as opened:
    file = pq.ParquetFile(opened)
    groups = [file.num_row_groups - 1, 0, file.num_row_groups // 2]
    for group in groups:
        seen = file.read_row_group(group, columns=["value"])
        expected = pq.ParquetFile(path).read_row_group(group, columns=["value"])
        assert seen.equals(expected), f"row group {group}"
    assert file.read().equals(known), "pyarrow"

found = ds.dataset(url, filesystem=http, format="parquet")
seen = found.to_table(filter=ds.field("id") >= 110_000, columns=["id", "label"])
assert seen.num_rows == 10_000, "dataset"

print(json.dumps({"rows": known.num_rows, "columns": known.num_columns, "groups": len(groups)}), flush=True)
# threads of pyarrow that still hold the file system of fsspec can end Python with SIGABRT
os._exit(0)
