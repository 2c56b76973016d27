"""The engine's core for outlined requests: times and blocks only, as rows of arrays, many steps a call.

Problem: a simulation of a fleet spends most of its time in engines, step by step and object by object, though nobody
looks at a step in which every sequence decodes one more token.
Idea: where contents do not matter, an engine is numbers: sequences are rows, blocks are cells of linked lists, and one
kernel call schedules step after step until a given time.  A look ahead, which changes nothing, finds when something
will happen that somebody outside can see; the driver comes back then.
Trade-off: what the kernels do is written twice, since the object engine (`inferplane_engine.sim.engine`) also computes
contents, windows, speculation and leases.  So only engines that need none of that are made here.
Invariant: the same calls give the same events at the same times, bit for bit, as the object engine does, whether its
driver looks in at every step or not; only the order of what happens at one moment is left open.
"""

from inferplane_engine.sim.outlined.engine import OutlinedEngine
from inferplane_engine.sim.outlined.warming import warm

__all__ = ["OutlinedEngine", "warm"]
