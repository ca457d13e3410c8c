"""The composition root: every shell asks the Engine, and only the Engine opens stores and models."""

from __future__ import annotations

from codeinfo.engine.engine import Engine

__all__ = ["Engine"]
