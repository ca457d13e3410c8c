"""How much one document may cost. Whatever is larger is hostile or no reading matter."""

from __future__ import annotations

import io

MAX_TEXT_CHARS = 10_000_000  # a shelf of books; of a longer text only the beginning is kept, and that is said
MAX_UNPACKED_BYTES = 300_000_000  # of an Office file; real ones with many pictures stay below
MAX_ENTRIES = 20_000
MAX_CELLS = 1_000_000  # of one workbook or table


class Refused(Exception):
    """A document that is not read; the message is the reason, for people."""


def open_office_file(data: bytes) -> io.BytesIO:
    """The bytes of an Office file, once its table of contents was found harmless. Nothing is unpacked to disk.

    Sizes are those the archive declares: `zipfile` never reads more than that from an entry. Office writes no document
    type declarations, so that one is the sign of an entity attack.
    """
    import zipfile

    if data.startswith(b"\xd0\xcf\x11\xe0"):
        raise Refused("encrypted, or of an old binary format: save it without a password as DOCX, PPTX or XLSX")
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            entries = archive.infolist()
            if len(entries) > MAX_ENTRIES:
                raise Refused(f"{len(entries):,} parts: no program writes that many")
            unpacked = sum(entry.file_size for entry in entries)
            if unpacked > MAX_UNPACKED_BYTES:
                raise Refused(f"{unpacked:,} bytes once unpacked: a zip bomb, or far too large")
            if any(entry.flag_bits & 1 for entry in entries):
                raise Refused("encrypted: it opens with a password only")
            for entry in entries:
                if entry.filename.endswith((".xml", ".rels")):
                    _check_markup(archive.read(entry)[:4096], entry.filename)
    except (zipfile.BadZipFile, EOFError, NotImplementedError) as error:
        raise Refused(f"broken: {error}") from error
    return io.BytesIO(data)


def _check_markup(head: bytes, name: str) -> None:
    plain = head.replace(b"\0", b"").lower()  # UTF-16 too
    if b"<!doctype" in plain or b"<!entity" in plain:
        raise Refused(f"{name} declares entities, which Office never writes")
