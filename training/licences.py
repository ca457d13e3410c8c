"""Is a package permissively licensed? Decided from its own metadata and copyright file; in doubt, no."""

from __future__ import annotations

import re

_PERMISSIVE = re.compile(
    r"(expat|mit(-0|-cmu|-style|-license|-modern)?|x11|isc|zlib(/libpng)?|libpng"
    r"|bsd([-_ ]?[0-4])?([-_ ]?clause)?([-_ ].*)?|bsl(-1\.0)?"
    r"|boost.*|apache([-_ ]?(2|2\.0|license.*))?|apache[ -]software.*|unlicense|public-domain|cc0(-1\.0.*)?|0bsd|wtfpl"
    r"|python-2\.0|psf.*|ncsa|postgresql|hpnd.*|blueoak-1\.0\.0"
    r"|mit license|the mit license.*|bsd license|isc license.*|php-3\.01|ruby)",
    re.I,
)
_COPYLEFT = re.compile(r"gpl|general public|mpl|mozilla public|epl|eclipse public|cddl|artistic|cecill|eupl|osl"
                       r"|cc-by|sspl|commercial|proprietary|non-?free|ofl|gfdl|lppl", re.I)  # fmt: skip


_PHRASES = (
    (r"Apache License", "Apache-2.0"),
    (r"MIT|Permission is hereby granted, free of charge", "MIT"),
    (r"Redistribution and use in source and binary forms", "BSD"),
    (r"\bISC\b", "ISC"),
)


def permissive(expression: str) -> bool:
    """'MIT OR GPL-2.0' is fine, 'MIT AND GPL-2.0' is not."""
    text = expression.strip().strip("()").strip()
    if not text:
        return False
    if re.search(r"\bor\b", text, re.I):
        return any(permissive(part) for part in re.split(r"\bor\b|\|", text, flags=re.I))
    parts = [p.strip(" ()") for p in re.split(r"\band\b|,|;", text, flags=re.I)]
    parts = [p for p in parts if p and not p.lower().startswith("with ")]
    return bool(parts) and all(_PERMISSIVE.fullmatch(re.sub(r"\s+with\s+.*", "", p, flags=re.I)) for p in parts)


def from_debian(copyright_text: str) -> str | None:
    """The licence of a source package by its copyright file, or None where any part of it is not permissive."""
    if re.match(r"\s*Format", copyright_text):
        names: list[str] = []
        for stanza in re.split(r"\n\s*\n", copyright_text):
            files = re.search(r"^Files:\s*(.+(?:\n[ \t]+.+)*)", stanza, re.M)
            licence = re.search(r"^License:\s*(.+)", stanza, re.M)
            if files and licence and not all(f.startswith("debian/") for f in files[1].split()):
                names.append(licence[1].strip())
        if names and all(permissive(name) for name in names):
            return " AND ".join(sorted(set(names)))[:120]
        return None
    if _COPYLEFT.search(copyright_text):
        return None
    for pattern, name in _PHRASES:
        if re.search(pattern, copyright_text):
            return name
    return None


def from_npm(package: dict[str, object]) -> str | None:
    value = package.get("license") or package.get("licenses")
    if isinstance(value, list):
        value = " OR ".join(str(v.get("type", "")) if isinstance(v, dict) else str(v) for v in value)
    if isinstance(value, dict):
        value = value.get("type", "")
    text = str(value or "")
    return text[:60] if permissive(text) else None


def from_python(pkg_info: str) -> str | None:
    """By licence expression, then classifiers, then the short licence field."""
    expression = re.search(r"^License-Expression:\s*(.+)", pkg_info, re.M)
    if expression:
        return expression[1].strip()[:60] if permissive(expression[1]) else None
    classifiers = re.findall(r"^Classifier: License :: OSI Approved :: (.+)", pkg_info, re.M)
    if classifiers:
        good = not any(_COPYLEFT.search(c) for c in classifiers)
        return " AND ".join(c.strip() for c in classifiers)[:60] if good else None
    field = re.search(r"^License:\s*(.+)", pkg_info, re.M)
    return field[1].strip()[:60] if field and len(field[1]) < 60 and permissive(field[1]) else None


_TEXTS = (
    (r"Apache License\s+Version 2\.0|Apache License, Version 2\.0", "Apache-2.0"),
    (r"Permission is hereby granted, free of charge", "MIT"),
    (r"Redistribution and use in source and binary forms", "BSD"),
    (r"Permission to use, copy, modify, and(/or)? distribute this software", "ISC"),
    (r"This software is provided ['‘\"]as-is['’\"]", "Zlib"),
    (r"Boost Software License", "BSL-1.0"),
    (r"This is free and unencumbered software", "Unlicense"),
    (r"CC0 1\.0 Universal", "CC0-1.0"),
)
_BOUND = re.compile(
    r"GENERAL PUBLIC LICEN|\b[AL]?GPL|Mozilla Public|\bMPL\b|Eclipse Public|Common Development and Distribution"
    r"|Artistic|CeCILL|European Union Public|Server Side Public|Business Source|Elastic License|Commons Clause"
    r"|Creative Commons Attribution|Enterprise Licen|Sustainable Use|non-?commercial|source-available",
    re.I,
)


def from_text(text: str) -> str | None:
    """The licence of a repository by its licence file, or None where any of it is not permissive."""
    if _BOUND.search(text):
        return None
    flat = re.sub(r"\s+", " ", text)
    return next((name for pattern, name in _TEXTS if re.search(pattern, flat, re.I)), None)
