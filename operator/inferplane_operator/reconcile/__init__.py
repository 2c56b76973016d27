"""Reconciling, pure: what is observed of one service goes in, what has to be written comes out.

Problem.  An operator is easy to get almost right: handlers that each change a little, races between them, writes that
trigger themselves.
Idea.  One function per kind, called with everything known about one object at one moment, that returns all writes at
once.  It has no clock, no client and no memory; the shell (`inferplane_operator.cluster`) calls it again whenever
something changed, drops writes that would change nothing, and carries out the rest.
Trade-off.  The whole picture of a service is looked at for every event of one of its Pods; events are gathered for a
moment, so that a burst is one look.
Invariant.  Called on a picture in which nothing is to be done, it returns no write but applies of what is there, which
say what is wanted and tell the shell an edit by hand; no status and no Event.
"""
