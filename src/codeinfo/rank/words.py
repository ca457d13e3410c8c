"""Words that carry no content in a question about code, and a bounded list of words that programmers use as one."""

from __future__ import annotations

STOP_WORDS = frozenset(
    """
    a about above across actually after all also am an and any are as at be because been before being below
    between both but by can cannot code codebase could defined defines definition definitions did do does doing
    done down during each either else etc every everything few file files find for from further get gets getting
    give given gives go goes going had handle handled handles handling happen happening happens has have having
    he her here hers him his how however i if implement implementation implementations implemented implementing
    implements in inside into is it its itself just know let like locate logic look looking made main make makes
    making many may me might mine more most much must my need needed needs no nor not now of off on once one
    only onto or other others our out over own part parts place please possible related responsible same see
    seem she should show since so some somewhere such than that the their theirs them then there these they
    thing things this those through thus to together too toward under until up upon us use used uses using
    various very via want was way ways we well were what whatever when where whether which while who whom whose
    why will with within without work working works would yet you your yours
    """.split()
)

# What a task or a commit begins with: it says that something is to change, not what. `add` must not find `add.go`.
CHANGE_VERBS = frozenset(
    """
    add added adding adds adjust allow allowed allows avoid avoids bump change changed changes clarify clean cleanup
    convert correct correctly create deprecate disable drop dropped enable enhance ensure expose extend extract
    fix fixed fixes fixing force guard handle hide implement implemented improve improved improves increase introduce
    keep limit make makes mark merge migrate modify move moved optimize pass prefer prevent prevents print properly
    provide reduce refactor reject remove removed removes removing rename renamed reorder replace replaced report
    require reset resolve restore restrict return revert rework rewrite set simplify skip sort speed split stop
    support supports switch tweak unify update updated updates upgrade use used validate wait warn wrap
    """.split()
)

# Pairs that a question says one way and code the other. Few on purpose: each costs precision.
_SYNONYMS = (
    ("authentication", "auth"),
    ("authorization", "auth"),
    ("configuration", "config"),
    ("settings", "config"),
    ("database", "db"),
    ("directory", "dir"),
    ("folder", "dir"),
    ("environment", "env"),
    ("error", "exception"),
    ("errors", "exception"),
    ("delete", "remove"),
    ("initialize", "init"),
    ("initialization", "init"),
    ("message", "msg"),
    ("parameters", "params"),
    ("arguments", "args"),
    ("asynchronous", "async"),
    ("synchronization", "sync"),
    ("serialization", "serialize"),
    ("serializing", "encode"),
    ("deserialization", "deserialize"),
    ("deserializing", "decode"),
    ("encoding", "serialize"),
    ("decoding", "deserialize"),
    ("temporary", "temp"),
    ("utilities", "util"),
    ("utilities", "helpers"),
    ("helpers", "util"),
    ("regular", "regex"),
    ("concurrent", "parallel"),
    ("documentation", "docs"),
    ("repository", "repo"),
    ("generic", "template"),
    ("statistics", "stats"),
    ("specification", "spec"),
    ("command", "cmd"),
    ("connection", "conn"),
    ("context", "ctx"),
    ("request", "req"),
    ("response", "resp"),
    ("string", "str"),
    ("memory", "alloc"),
    ("allocation", "alloc"),
    ("previous", "prev"),
    ("maximum", "max"),
    ("minimum", "min"),
    ("calculate", "compute"),
    ("attribute", "attr"),
    ("attributes", "attr"),
    ("property", "prop"),
    ("properties", "props"),
)

EXPANSIONS: dict[str, tuple[str, ...]] = {}
for _word, _other in _SYNONYMS:
    EXPANSIONS[_word] = (*EXPANSIONS.get(_word, ()), _other)
