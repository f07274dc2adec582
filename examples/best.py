#!/usr/bin/env python3
"""The best bus bandwidth of each collective in a results.csv, with nothing but Python's standard library.

    examples/best.py results/*/results.csv
"""

import csv
import sys


def main(paths):
    best = {}
    for path in paths:
        with open(path, newline="") as file:
            for row in csv.DictReader(file):
                if row["status"] == "ok":
                    key = (row["level"], row["collective"])
                    best[key] = max(best.get(key, (0.0, 0)), (float(row["busbw_GBps"]), int(row["size_bytes"])))
    for (level, collective), (busbw, size) in sorted(best.items()):
        print(f"{level:12} {collective:16} {busbw:10.3f} GB/s at {size} bytes")


if __name__ == "__main__":
    main(sys.argv[1:] or sys.exit(__doc__))
