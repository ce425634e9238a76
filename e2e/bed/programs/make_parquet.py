# Writes a Parquet file of some megabytes in forty row groups, whose index is at its end: make_parquet.py PATH
import random
import sys

import pyarrow as pa
import pyarrow.parquet as pq

rows = 120_000
draw = random.Random(7)
table = pa.table(
    {
        "id": pa.array(range(rows), pa.int64()),
        "value": pa.array([draw.random() for _ in range(rows)], pa.float64()),
        "label": pa.array([f"row {n % 97}" for n in range(rows)]),
    }
)
pq.write_table(table, sys.argv[1], row_group_size=rows // 40, compression="none")
