"""Where services and workers come from: a sequence of whole catalogues."""
