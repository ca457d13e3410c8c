"""The composition root and facade: every shell asks the Engine, and only the Engine opens stores and providers."""

from __future__ import annotations

from codeinfo.engine.engine import Engine

__all__ = ["Engine"]
