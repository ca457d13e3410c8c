"""What a codebase's syntax says about it: which file needs which, what a name means, who calls whom.

Values in, values out. Facts of files become links (`resolve`), links a `Graph` (`model`). A `CodeIndex` is one
generation of an index with its graph; `names` resolves one use of a name in it, `references` and `calls` answer with
all of them, `reach` and `survey` read the graph, `drawing` draws it. Everything is read through `ports.CodeFacts`.
"""
