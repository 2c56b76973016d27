"""The worker agent: the sidecar that makes one unmodified engine a worker.

Problem: routers need to know what an engine holds and does, and clients need hand-offs, drains and exact usage, none of
which an engine offers.  Idea: a small proxy beside it that sees every request and every event of that engine.
Trade-off: one more hop on the data path, so the plain path runs without a task per request.
Invariant: nothing that a client sends can name a KV transfer, and every accepted request is finished exactly once in
the load that routers see.
"""
