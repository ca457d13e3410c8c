"""Which file is a document, which converter reads it, and what that needs: one row a format."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec

from msgspec import Struct

from codeinfo.languages import language_of
from codeinfo.model import FileKind
from codeinfo.sources.documents.model import Document

INSTALL = "pip install 'codeinfo[docs]'"


class Format(Struct, frozen=True):
    name: str
    extensions: tuple[str, ...]
    converter: str  # module:function below this package
    needs: str = ""  # a library of the extra `docs`


FORMATS = (
    Format("html", (".html", ".htm", ".xhtml"), "html:convert_html"),
    Format("notebook", (".ipynb",), "plain:convert_notebook"),
    Format("csv", (".csv", ".tsv", ".psv"), "plain:convert_csv"),
    Format("email", (".eml",), "plain:convert_mail"),
    Format("pdf", (".pdf",), "office:convert_pdf", "pypdfium2"),
    Format("docx", (".docx",), "office:convert_docx", "mammoth"),
    Format("pptx", (".pptx",), "office:convert_pptx", "pptx"),
    Format("xlsx", (".xlsx", ".xlsm"), "office:convert_xlsx", "openpyxl"),
)
_BY_EXTENSION = {extension: item for item in FORMATS for extension in item.extensions}


def format_of(path: str) -> Format | None:
    """The format that has to be converted before it can be cut; None for what is cut as it is."""
    dot = path.rfind(".")
    return _BY_EXTENSION.get(path[dot:].lower()) if dot > 0 else None


def document_language(path: str) -> str:
    """The name of a document's format, "" for what is no document."""
    if found := format_of(path):
        return found.name
    language = language_of(path)
    return language.name if language is not None and language.kind is FileKind.DOCS else ""


def missing_library(path: str) -> str:
    """The command that makes a file readable, "" where nothing is missing."""
    found = format_of(path)
    return INSTALL if found and found.needs and find_spec(found.needs) is None else ""


def convert(path: str, data: bytes) -> Document:
    """Raises Refused, or whatever a hostile file provokes in a library: the caller must be able to die of it."""
    found = format_of(path)
    assert found is not None, path
    module, _, function = found.converter.partition(":")
    converter: Callable[[bytes, str], Document] = getattr(
        import_module(f"codeinfo.sources.documents.{module}"), function
    )
    return converter(data, path)
