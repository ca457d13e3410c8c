"""Secrets inside text, masked before anything is stored, embedded or sent. Line breaks stay where they are.

    formats      keys that a service's prefix or shape gives away: a table
    context      values that their surroundings give away: assignments, addresses, headers, key blocks
    randomness   whether a value was drawn at random, or is a word, a placeholder or a reference
    containers   keys behind another encoding: JSON escapes, notebooks, base64 in Kubernetes secrets
    masking      all of them together

Everything is bounded or starts at a border, so that time grows with the length of the text whatever it holds. Plain
substrings are looked for first: most files have few and cost nothing more.
"""

from codeinfo.sources.secrets.masking import mask

__all__ = ["mask"]
