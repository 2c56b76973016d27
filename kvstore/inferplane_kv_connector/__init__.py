"""The engine's side of the KV store: runs inside an unmodified engine, with the standard library, numpy and torch only.

What both sides must agree on lives here as well (keys, envelope, messages), so that the store imports this package and
never the other way round.
"""
