"""Documents: the Cranfield collection (1,400 abstracts, 225 questions), keyword search against hybrid search.

python training/documents.py MODEL FOLDER      FOLDER holds cran.all.1400, cran.qry and cranqrel
"""

from __future__ import annotations

import math
import re
import sys
from collections import defaultdict
from pathlib import Path

import numpy as np
from evaluate import Bm25, Repo, unit
from tables import Table


def sections(text: str) -> list[str]:
    """The texts of a Cranfield file, in order: everything after .W, the title in front."""
    out: list[str] = []
    for part in re.split(r"^\.I \d+\s*$", text, flags=re.M)[1:]:
        title = re.search(r"^\.T\n([\s\S]*?)^\.A", part, re.M)
        body = re.search(r"^\.W\n([\s\S]*)", part, re.M)
        out.append((title[1] if title else "") + (body[1] if body else ""))
    return out


def main() -> None:
    model, folder = Path(sys.argv[1]), Path(sys.argv[2])
    texts = sections((folder / "cran.all.1400").read_text())
    questions = sections((folder / "cran.qry").read_text())
    relevant: defaultdict[int, set[int]] = defaultdict(set)
    for line in (folder / "cranqrel").read_text().splitlines():
        question, document, grade = (int(x) for x in line.split()[:3])
        if grade < 5:  # 5 means not relevant
            relevant[question - 1].add(document - 1)
    table = Table.load(model)
    keyword = Bm25(Repo("cranfield", "", ["x"] * len(texts), np.arange(len(texts), dtype=np.int32), texts))
    rows = table.documents(texts)
    totals: defaultdict[str, list[float]] = defaultdict(list)
    for number, question in enumerate(questions):
        channels = {"keyword": unit(keyword(question)), "model": unit(rows @ table.query(question))}
        for share in (0.2, 0.3, 0.4, 0.5):
            channels[f"hybrid {share}"] = share * channels["model"] + (1 - share) * channels["keyword"]
        for name, scores in channels.items():
            order = np.argsort(-scores, kind="stable")[:10].tolist()
            gain = sum(1 / math.log2(i + 2) for i, d in enumerate(order) if d in relevant[number])
            ideal = sum(1 / math.log2(i + 2) for i in range(min(10, len(relevant[number]))))
            totals[name].append(gain / ideal if ideal else 0.0)
    for name, values in totals.items():
        print(f"{name:12} ndcg10 {sum(values) / len(values):.4f}")


if __name__ == "__main__":
    main()
