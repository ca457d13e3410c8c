"""E-mail as it is saved: who, when, about what, the text, and the names of what is attached."""

from __future__ import annotations

import email
import email.policy
from email.message import EmailMessage

from codeinfo.sources.documents.html import html_document
from codeinfo.sources.documents.limits import Refused
from codeinfo.sources.documents.model import Block, BlockKind, Document, one_line, paragraph

_HEADERS = ("From", "To", "Cc", "Date")


def convert_mail(data: bytes, path: str) -> Document:
    message = email.message_from_bytes(data, policy=email.policy.default)
    if not isinstance(message, EmailMessage) or not message.keys():
        raise Refused("not an e-mail: it has no header lines")
    subject = one_line(str(message.get("Subject", "")))
    header = [f"{name}: {one_line(str(message[name]), 500)}" for name in _HEADERS if message[name]]
    blocks = [paragraph("\n".join(header)), *_body(message)]
    attached = [name for part in message.iter_attachments() if (name := part.get_filename())]
    blocks.extend(Block(BlockKind.ITEM, f"attached: {name}", 1) for name in attached)
    notes = (f"{len(attached)} attachments are named, not read",) if attached else ()
    return Document(subject, tuple(blocks), notes)


def _body(message: EmailMessage) -> tuple[Block, ...]:
    body = message.get_body(("plain", "html"))
    if body is None:
        return ()
    try:
        text = body.get_content()
    except (LookupError, ValueError) as error:  # a character set nobody knows, an encoding that lies
        raise Refused(f"broken: {error}") from error
    if body.get_content_type() == "text/html":
        return html_document(text).blocks
    return tuple(paragraph(part) for part in text.replace("\r\n", "\n").split("\n\n") if part.strip())
