"""The shell around reconciling: what is watched becomes a store, what changed a queue of keys, what shall be writes.

Problem.  Watches tell of one object at a time, late and out of order, while a decision needs everything about a service
at one moment; and whoever writes on each event writes too often.
Idea.  `store` holds every object that matters, `ownership` finds the services that an event is about, `backlog` says
which of them is due, `reconciling` builds what was observed, asks the pure core and hands its outcome to `writing`.
Trade-off.  A step looks at all of a service's objects although one changed; they are a few dozen small ones.
Invariant.  Nothing is written but by `writing` (objects), `event_recording` (Events) and `leadership` (the Lease), and
by the first two only while the Lease is held.
"""
