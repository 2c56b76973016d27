"""HTTP/1.1 on the hot path: a server and a client of a few calls each, without a task per request.

The gateway, the worker agent and the simulated engine stand on the same two halves.  A handler is an ordinary function:
it gets a complete request and an exchange to answer on, and may answer at once, later, or by relaying what an upstream
sends.  Nothing here knows about models or routing.
"""
