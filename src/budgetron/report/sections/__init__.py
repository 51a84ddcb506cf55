"""The head and the sections of a report, up to three sections per file. `assemble` puts them in order."""
