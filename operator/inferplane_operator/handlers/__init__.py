"""Kopf's part: it watches, re-connects and resumes; our handlers hand over what it saw and do nothing else.

Only `on.event` is used.  Kopf's other handlers would add finalizers to objects (deletion, daemons, timers) or keep
their progress in annotations (changes): writes that nobody asked for, and namespaces that cannot be deleted while no
operator runs.
"""
