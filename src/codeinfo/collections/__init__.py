"""Collections of documents: what they are, where they are listed, how they are packed, linked and searched as one.

model      Collection, and how a source that was typed becomes one
listing    the files that name collections: the user's list and a project's context.json
manifest   what a package says about itself, and which files that selects
package    a folder into a tar.gz and back, without trusting either
addresses  which hosts may be asked for documents
download   over the network, only where a collection asks for it
links      links between documents
joined     several indexes seen as one
weights    the ranking's numbers for prose
"""
