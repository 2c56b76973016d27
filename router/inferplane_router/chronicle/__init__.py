"""What a router saw, kept in files: what happened to its workers and services, and its decisions.

`comparing` finds what happened between two looks at the core, `rolled_file` keeps lines within a bound, `chronicle`
does both in time.  `inferplane incident` and `inferplane explain` read the files, also of a router that is gone.
Neither prompts nor answers are in them.
"""
