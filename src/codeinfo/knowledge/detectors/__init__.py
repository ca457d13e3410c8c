"""Detectors: tables of how the ways of doing something look in code, one module a language."""

from __future__ import annotations

from codeinfo.knowledge.detector import Detector
from codeinfo.knowledge.detectors import angular, csharp, go, java, javascript, python, rust

BUILT_IN: tuple[Detector, ...] = (
    *python.DETECTORS,
    *javascript.DETECTORS,
    *angular.DETECTORS,
    *go.DETECTORS,
    *java.DETECTORS,
    *csharp.DETECTORS,
    *rust.DETECTORS,
)

__all__ = ["BUILT_IN"]
