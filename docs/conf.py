"""The documentation's build: `make docs`, with every warning an error.

Pages are plain Markdown that reads as well in a repository's viewer, so nothing here adds a syntax of its own:
a link to a page becomes a link of the site, a link to any other file of the repository is offered as that file.
"""

from typing import Final

project: Final = "Inferplane"
author: Final = "the Inferplane authors"

extensions: Final = ["myst_parser"]
source_suffix: Final = {".md": "markdown"}
exclude_patterns: Final = ["_build"]

# Headings are link targets, as they are in a repository's viewer.
myst_heading_anchors: Final = 3

html_theme: Final = "furo"  # light and dark, keyboard, no font or script from elsewhere
html_title: Final = "Inferplane"
html_copy_source: Final = False
html_show_sphinx: Final = False
