"""The ranking's numbers for prose, measured with benchmarks/documents.py. What a file is called and where it lies says
less there than in code, a document as a whole says more than its best passage, and a longer one is not a better one."""

from __future__ import annotations

from codeinfo.search.weights import Weights

DOCUMENTS = Weights(
    b=0.75,
    name_field=1.0,
    chunks=1.0,
    file_bm25=1.0,
    exact_definition=1.0,
    named_definition=0.4,
    stem_match=0.3,
    folder_match=0.15,
    definition_coverage=0.0,
    text_coverage=0.0,
    title_coverage=0.0,
    named_in_text=0.0,
    scope_match=0.0,
    history=0.0,
    path_mention=0.3,
    meaning=0.5,
    depth=0.0,
    secondary=1.0,
    asked_secondary=1.0,
    docs=1.0,
    config=1.0,
    vendored=1.0,
    type_stub=1.0,
    older_copy=1.0,
    translation=1.0,
    tiny=1.0,
)
