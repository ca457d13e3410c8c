"""Documents of every format as one shape: headings, paragraphs, lists, tables, code, and the place they stand at.

    model      Document and Block, and how they are written as Markdown
    formats    which converter reads which file, and what it needs
    convert    bytes in, Document out, or Refused with a reason
    html, pdf, office, tables, notebook, mail   one module a family

A converter is given bytes that nobody vouches for. It keeps to the limits of `limits`, and it runs in a worker process
that can be killed (see `index.pool`), so that no file can harm the process that asked.
"""
