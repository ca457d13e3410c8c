"""What the syntax of a codebase says: which file needs which, what a name means, who calls whom.

Values in, values out. A `CodeIndex` is one generation of an index with its `Graph` of files; `names` resolves one use
of a name in it, `references` answers with all of them, `reach` and `survey` read the graph. Everything is read through
`ports.CodeFacts`.
"""
