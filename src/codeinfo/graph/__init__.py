"""The graph of a codebase: which file needs which, what that makes important, and what a change would reach.

Values in, values out: facts of files become links (`resolve`), links a `Graph` (`model`), and from it come centrality
(`rank`), cycles and impact (`reach`), a map (`survey`) and pictures of it (`picture`, `mermaid`).
"""
