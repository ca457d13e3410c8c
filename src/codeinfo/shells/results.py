"""What each operation answers with, by the name of its type: shells that describe results need it without asking."""

from __future__ import annotations

from importlib import import_module

_IN = {
    "requests": {
        "index": "IndexResponse",
        "search": "SearchResponse",
        "similar": "SearchResponse",
        "status": "StatusReport",
        "why": "WhyReport",
        "clear": "ClearReport",
        "doctor": "DoctorReport",
    },
    "requests.code": {
        "symbols": "SymbolList",
        "defs": "DefinitionList",
        "refs": "ReferenceReport",
        "calls": "CallGraph",
        "imports": "ModuleImports",
        "map": "CodeMap",
        "cycles": "CycleReport",
        "impact": "ImpactReport",
        "hotspots": "HotspotReport",
        "unused": "UnusedReport",
    },
    "requests.knowledge": {
        "remember": "Remembered",
        "memory list": "MemoryList",
        "memory show": "RelatedMemory",
        "memory remove": "MemoryRemoved",
        "memory export": "MemoryExport",
        "patterns": "PatternReport",
        "metadata": "MetadataReport",
        "style": "StyleReport",
        "review": "ReviewPacket",
    },
    "requests.documents": {
        "docs add": "SyncResponse",
        "docs list": "DocsListResponse",
        "docs sync": "SyncResponse",
        "docs remove": "DocsRemoveResponse",
        "docs search": "DocsSearchResponse",
        "docs outline": "DocsOutlineResponse",
        "docs section": "DocsSectionResponse",
        "docs related": "DocsRelatedResponse",
    },
    "requests.answers": {
        "ask": "Answer",
        "docs ask": "Answer",
        "providers": "ProviderList",
        "agents list": "AgentList",
        "agents run": "AgentRun",
        "conversations list": "ConversationPage",
        "conversations show": "ConversationDetail",
        "conversations search": "ConversationMatches",
        "conversations archive": "ConversationsChanged",
        "conversations restore": "ConversationsChanged",
        "conversations delete": "ConversationsChanged",
        "conversations export": "ConversationExport",
    },
    "requests.vectors": {"vector-search": "VectorSearchResult", "projects": "ProjectsResult"},
    "requests.integration": {"savings": "SavingsReport"},
}
_HOMES = {operation: (module, name) for module, names in _IN.items() for operation, name in names.items()}


def result_type(operation: str) -> type | None:
    """None for an operation that is not listed: it can be served, but not described."""
    if operation not in _HOMES:
        return None
    module, name = _HOMES[operation]
    found: type = getattr(import_module(f"codeinfo.{module}"), name)
    return found
