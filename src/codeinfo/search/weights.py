"""The numbers of the ranking, in one place. `benchmarks/fit_ranking.py` fits them; `docs/ranking.md` says what on."""

from __future__ import annotations

from typing import NamedTuple

from codeinfo.search.query import Shape


class Weights(NamedTuple):
    # BM25 over chunks. Long saturation (k1) because path and definition fields weigh heavily.
    k1: float = 5.0
    b: float = 0.85
    stem_field: float = 20.0  # a term in the file's own name counts like this many uses
    folder_field: float = 1.0
    type_field: float = 10.0  # a term in the name of a type that the chunk defines
    name_field: float = 2.0  # in the name of a function, method or constant
    chunk_decay: tuple[float, ...] = (1.0, 0.5, 0.25, 0.12, 0.06)  # a file's best chunks, best first

    # Added. Each signal is between 0 and 1, most of them relative to the best file of the query.
    chunks: float = 0.33
    chunk_coverage: float = 0.2  # square of the share of the query, by rarity, that one chunk has
    file_bm25: float = 0.11
    exact_definition: float = 10.0  # the query is a bare name, and the file defines it: before all others
    named_definition: float = 0.25  # a sentence mentions a name that the file defines
    named_in_text: float = 0.17  # share of the query, by rarity, that are names of code found in the file
    stem_match: float = 0.45  # the query found in the file's name, and the name in the query
    folder_match: float = 0.23
    definition_coverage: float = 0.21  # share of the query found in the names the file defines
    title_coverage: float = 0.55  # share of the words of the first line found in the file, rare or not
    text_coverage: float = 0.0  # share of all words, by rarity, found in the file
    path_mention: float = 0.9  # the text names the file or its module
    project_file: float = 2.6  # the file sets up what is asked about: CI, images, supported versions
    scope_match: float = 0.06  # share of "http client" in "http client: …" found in the path
    history: float = 0.35  # root of what past commit messages say for the file
    exact_text: float = 10.0  # the file has the text of the query word for word, and few have: before all others
    meaning: float = 1.05  # how much nearer the file is than the average one, the nearest being 1

    # Used by fusion by rank alone, in place of all of the above.
    keyword_rank: float = 0.0
    meaning_rank: float = 0.0

    # Multipliers.
    depth: float = 0.095  # × e^(−this × folders between the file and its package, at most 4)
    secondary: float = 0.28  # tests, examples, benchmarks, legacy, where the query is not about them
    asked_secondary: float = 1.0  # where it is
    test_topic: float = 0.5  # where it speaks of testing but asks for no tests, as "test client" does
    no_test: float = 0.6  # other files where it asks for tests
    docs: float = 0.2  # documents, where the query does not ask for them
    guide: float = 1.4  # documents, where it asks how to do something
    config: float = 0.25  # data and settings, where the query does not ask for them
    migration: float = 0.3  # past changes of a database's schema, where the query is not about it
    vendored: float = 0.3
    type_stub: float = 0.6
    stylesheet: float = 0.5  # where the query does not speak of looks
    declarations: float = 0.85  # types without anything that does something, where the query is not about types
    header: float = 0.9  # a header beside the file that does what it declares
    older_copy: float = 0.9  # a newer edition lies beside it, and the query names no version
    translation: float = 0.25  # a page in another language than the query's
    tiny: float = 0.95  # a file with next to nothing in it, such as one that only re-exports others


QUESTION = Weights()

TASK = QUESTION._replace(
    chunks=0.31,
    chunk_coverage=0.4,
    file_bm25=0.09,
    named_definition=0.16,
    named_in_text=0.36,
    stem_match=0.12,
    folder_match=0.08,
    definition_coverage=0.05,
    title_coverage=0.43,
    text_coverage=0.06,
    scope_match=0.39,
    history=0.31,
    meaning=0.6,
    depth=0.0,
    docs=0.15,
    secondary=0.35,
    asked_secondary=0.5,
    no_test=1.0,
    type_stub=0.55,
    stylesheet=1.0,
    declarations=1.0,
    header=0.95,
    tiny=0.8,
)

REPORT = QUESTION._replace(
    chunks=0.42,
    chunk_coverage=0.5,
    file_bm25=0.38,
    named_definition=0.2,
    named_in_text=0.2,
    stem_match=0.1,
    folder_match=0.13,
    definition_coverage=0.07,
    title_coverage=0.06,
    text_coverage=0.53,
    path_mention=0.31,
    scope_match=0.26,
    history=0.22,
    meaning=0.5,
    depth=0.02,
    docs=0.35,
    secondary=0.4,
    asked_secondary=0.5,
    no_test=1.0,
    stylesheet=1.0,
    header=0.95,
    tiny=0.87,
)

WITH_VECTORS = {Shape.NAME: QUESTION, Shape.QUESTION: QUESTION, Shape.TASK: TASK, Shape.REPORT: REPORT}

# Without the vector channel words have to carry more.
WITHOUT_VECTORS = {
    shape: weights._replace(
        chunks=1.5 * weights.chunks + 0.1, file_bm25=weights.file_bm25 + 0.15, stem_match=weights.stem_match + 0.1
    )
    for shape, weights in WITH_VECTORS.items()
}

# For prose, measured with benchmarks/documents.py. What a file is called and where it lies says less there than in
# code, a document as a whole says more than its best passage, and a longer one is not a better one.
DOCUMENTS = Weights(
    b=0.75,
    name_field=1.0,
    chunks=1.0,
    chunk_coverage=0.0,
    file_bm25=1.0,
    exact_definition=9.0,  # a heading counts .11
    named_definition=0.4,
    stem_match=0.3,
    folder_match=0.15,
    definition_coverage=0.0,
    text_coverage=0.0,
    title_coverage=0.0,
    named_in_text=0.0,
    scope_match=0.0,
    history=0.0,
    exact_text=0.0,
    path_mention=0.3,
    project_file=0.0,
    meaning=0.5,
    depth=0.0,
    secondary=1.0,
    asked_secondary=1.0,
    test_topic=1.0,
    no_test=1.0,
    docs=1.0,
    guide=1.0,
    config=1.0,
    migration=1.0,
    vendored=1.0,
    type_stub=1.0,
    declarations=1.0,
    header=1.0,
    older_copy=1.0,
    translation=1.0,
    tiny=1.0,
)
