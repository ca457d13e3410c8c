"""Documents of every format as one shape: headings, paragraphs, lists, tables, code, and the place they stand at.

A converter is given untrusted bytes. It keeps to the limits of `formats`, and it runs in a worker process
that can be killed (see `index.pool`), so that no file can harm the process that asked.
"""
