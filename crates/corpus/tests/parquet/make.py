"""Writes the Parquet files beside this script, which `main.rs` reads: pip install pyarrow polars"""

from pathlib import Path

import polars
import pyarrow
from pyarrow.parquet import write_table

directory = Path(__file__).parent
numbers = range(300)

# Snappy and two row groups; a column that is not always there, a nested one, and one that no format knows.
corpus = {
    "_id": [f"d{i}" for i in numbers],
    "title": [None if i % 3 else f"title {i}" for i in numbers],
    "text": [f"def f{i}(): return {i % 7}" for i in numbers],
    "metadata": [{"stars": i, "tags": ["a"]} for i in numbers],
}
write_table(pyarrow.table(corpus), directory / "corpus.parquet", row_group_size=200)

# Zstandard, by another writer.
queries = {"id": [f"q{i}" for i in range(30)], "text": [f"what is {i} é" for i in range(30)]}
polars.DataFrame(queries).write_parquet(directory / "queries.parquet")

# gzip, pages of the second version, grades that are floating-point numbers.
qrels = {"query-id": queries["id"], "corpus-id": corpus["_id"][:30], "score": [float(i % 2) for i in range(30)]}
write_table(pyarrow.table(qrels), directory / "qrels.parquet", compression="gzip", data_page_version="2.0")

# Not packed; lists of all lengths, and numbers as ids.
lists = [[f"d{j}" for j in range(i % 5)] for i in range(29)] + [["d1", "d2"] * 50]
ranked = {"query-id": pyarrow.array(range(30), pyarrow.int32()), "corpus-ids": lists}
write_table(pyarrow.table(ranked), directory / "top_ranked.parquet", compression="none", use_dictionary=False)
