"""Citations: what is invented goes, what does not hold is marked, what is right stays as it is."""

from __future__ import annotations

import pytest
from patience import is_quick

from codeinfo.answers.write import CitationChecker
from codeinfo.model import Passage

SESSION = """class Session:
    def close(self):
        \"\"\"Closes all adapters and as such the session.\"\"\"
        for adapter in self.adapters.values():
            adapter.close()"""
COOKIES = """def merge_cookies(cookiejar, cookies):
    \"\"\"Add cookies to cookiejar and returns a merged CookieJar.\"\"\"
    return cookiejar"""
LIMITS = """TIMEOUT_MS = 30_000  # Python 3.11
most = max(100,250) * 1024
share = 0.25"""
ITEMS = {
    1: Passage("/r", "src/requests/sessions.py", 100, 104, SESSION, symbol="Session.close", number=1),
    2: Passage("/r", "src/requests/cookies.py", 10, 12, COOKIES, symbol="merge_cookies", number=2),
    3: Passage("/r", "src/requests/limits.py", 1, 3, LIMITS, number=3),
}


def checked(text: str) -> str:
    return CitationChecker(ITEMS).check(text)


RIGHT = [
    "`Session.close` closes all adapters [1].",
    "Closing a session closes every adapter. [1] Then nothing is left.",
    "See sessions.py:101 [1].",
    "See src/requests/sessions.py:100-104 [1] and `merge_cookies` [2].",
    'It returns "a merged CookieJar" [2].',
    "merge_cookies() adds them [2].",
    "In `items[3]` and `x[12]` no citation is meant.",
    "```\nrow[7] = cells[9]\n```",
    "Both [1][2].",
    "Lines 10 to 12 merge the cookies [2].",
    "The timeout is 30 seconds, 30,000 ms, with Python 3.11 [3].",
    "12. The share is 25 %, the most of 100 and 250 KB [3].",
    "Closing a session closes all 3 kinds of adapters, see issue #4711 and utf-16 [1].",
]


@pytest.mark.parametrize("text", RIGHT)
def test_a_right_citation_stays(text: str) -> None:
    checker = CitationChecker(ITEMS)
    assert checker.check(text) == text
    assert not checker.faults


WRONG = [
    ("`Session.close` closes all adapters [2].", "does not contain"),
    ("It is in cookies.py [1].", "names cookies.py"),
    ("It is in src/requests/models.py:5 [1].", "names src/requests/models.py"),
    ("See sessions.py:240 [1].", "names line 240"),
    ("Lines 90-95 close it [1].", "names line 90"),
    ('It says "closes no adapter at all" [1].', "does not contain"),
    ("merge_cookies adds them [1].", "does not contain"),
    ("Cookies are added to the cookiejar and merged there [1].", "hardly any"),
    ("The timeout is 45 seconds in Python [3].", "does not contain the number 45"),
    ("Closing the session closes all 128 adapters [1].", "does not contain the number 128"),
    ("Proxy credentials are taken from the environment [2].", "hardly any"),
]


@pytest.mark.parametrize(("text", "problem"), WRONG)
def test_a_wrong_citation_is_marked(text: str, problem: str) -> None:
    checker = CitationChecker(ITEMS)
    assert ": unverified]" in checker.check(text)
    assert problem in checker.faults[0].problem
    assert checker.faults[0].action == "marked"
    assert checker.citations()[0].problem


def test_an_invented_citation_is_removed() -> None:
    assert checked("A fact [7].") == "A fact [no source]."
    assert checked("Adapters are closed by the session [1, 9].") == "Adapters are closed by the session [1]."
    assert checked("Adapters are closed by the session [9][1].") == "Adapters are closed by the session[1]."
    assert checked("Zero [0].") == "Zero [no source]."


def test_one_bad_claim_does_not_taint_its_neighbour() -> None:
    text = checked("The session closes its adapters [1]. See cookies.py [1].")
    assert text == "The session closes its adapters [1]. See cookies.py [1: unverified]."


def test_code_fences_stay_open_over_pieces() -> None:
    checker = CitationChecker(ITEMS)
    assert checker.check("```python") + checker.check("x[7]") + checker.check("```") == "```pythonx[7]```"
    assert checker.check("x [7]") == "x [no source]"


@pytest.mark.parametrize("hostile", ["a" * 200_000, "[1" * 60_000, "`" * 100_000, "a.a/" * 50_000, '"' * 100_000])
def test_hostile_text_takes_little_time(hostile: str) -> None:
    assert is_quick(lambda: checked(hostile + " [1]"), 5)


def test_a_claim_is_reported_without_the_gap_of_its_citation() -> None:
    checker = CitationChecker(ITEMS)
    checker.check("It retries 999 times before it closes all adapters [1].")
    assert [fault.claim for fault in checker.faults] == ["It retries 999 times before it closes all adapters."]
