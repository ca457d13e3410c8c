"""From the text of a file to chunks, definitions, imports, references and weighted terms."""
