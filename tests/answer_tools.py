"""What tests of answers share: some code to ask about, and a model that plays along."""

from __future__ import annotations

import json

from scripted import Reply, Request

ACCOUNT = '''class Account:
    """Money that belongs to one customer."""

    def transfer(self, other, amount):
        """Move money to another account, in one transaction."""
        if amount > self.balance:
            raise InsufficientFunds(amount)
        self.balance -= amount
        other.balance += amount


'''
ANSWER = "`transfer` moves the amount and raises `InsufficientFunds` when the balance is too small [1]."


def before_writing(request: Request, query: str = "transfer money between accounts") -> Reply | None:
    """Good grades for all passages, or the query to search for; None where the answer itself is asked for."""
    properties = (request.schema or {}).get("properties", {})
    if "grades" in properties:
        count = request.messages[0].content.count("<<<passage ")
        return Reply(json.dumps({"grades": [{"passage": n, "score": 0.9} for n in range(1, count + 1)]}))
    if "query" in properties:
        return Reply(json.dumps({"query": query, "missing": "nothing"}))
    return None
