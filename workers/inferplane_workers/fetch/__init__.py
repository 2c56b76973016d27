"""Downloads a model's files from a hub into a folder that engines read: a program that ends.

Problem: an engine that downloads for itself needs the token, a way to the hub at each start, and as many downloads as
there are Pods.  Idea: a program of its own does it once, by commit, before the engine starts; Pods that share a folder
wait for the first of them.  Trade-off: an engine starts no earlier than the last file is there.
Invariant: a commit that is marked as complete is complete, and nothing is asked of a hub for it.
"""
