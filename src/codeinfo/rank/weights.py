"""The numbers of the ranking, in one place. Each was measured; `docs/ranking.md` says how and what it is worth."""

from __future__ import annotations

from typing import NamedTuple


class Weights(NamedTuple):
    # BM25 over chunks. Long saturation (k1) because path and definition fields weigh heavily.
    k1: float = 5.0
    b: float = 0.85
    stem_field: float = 20.0  # a term in the file's own name counts like this many uses
    folder_field: float = 1.0
    type_field: float = 10.0  # a term in the name of a type that the chunk defines
    name_field: float = 2.0  # in the name of a function, method or constant
    chunk_decay: tuple[float, ...] = (1.0, 0.5, 0.25, 0.12, 0.06)  # a file's best chunks, best first

    # Added, each relative to the best file of the query.
    chunks: float = 0.3
    file_bm25: float = 0.4
    exact_definition: float = 1.0  # the query is a bare name, and the file defines it
    named_definition: float = 0.25  # a sentence mentions a name that the file defines
    stem_match: float = 0.6  # the query found in the file's name, and the name in the query
    folder_match: float = 0.4
    definition_coverage: float = 0.25  # share of the query found in the names the file defines
    text_coverage: float = 0.3  # share of the query found anywhere in the file
    path_mention: float = 0.4  # the text names the file or its module
    history: float = 0.2  # root of what past commit messages say for the file; at .3 questions about libraries lose

    # Meaning: z-score of a file's best cosine, cut at 0, divided by 4; of the first files with what their paths mean.
    meaning: float = 1.0

    # Multipliers.
    length: float = 0.4  # × (1 + this × relative log length)
    depth: float = 0.05  # × e^(−this × folders between the file and its package, at most 4)
    secondary: float = 0.35  # tests, examples, benchmarks, legacy, where the query is not about them
    asked_secondary: float = 0.8  # where the query speaks of tests: a test framework's own source does too
    docs: float = 0.3  # documents, where the query does not ask for them
    config: float = 0.3  # data and settings, likewise
    vendored: float = 0.3
    type_stub: float = 0.7
    older_copy: float = 0.6  # a newer edition lies beside it, and the query names no version
    translation: float = 0.25  # a page in another language than the query's


WITH_VECTORS = Weights()

# Without the vector channel words have to carry more. Fitted by itself.
WITHOUT_VECTORS = Weights(
    chunks=0.75,
    file_bm25=0.37,
    named_definition=0.27,
    stem_match=0.6,
    definition_coverage=0.14,
    text_coverage=0.25,
    path_mention=0.3,
)
