"""Workloads: where requests come from, when nobody real sends any.

Problem.  A planner and a router are judged by what traffic does to them, and traffic has shape: prefixes that many
share, sessions that think, agents that wait for tools, crowds.  A list of lengths shows none of it.
Idea.  A prompt is a row of pieces, each a name and a length; equal names are equal text.  So a trace that says only
which blocks are equal, and a generator that says why, are the same kind of thing, and tokens are made from the names
when somebody needs them.  A workload is asked for its next arrival, and told when an answer is complete, since what a
session sends next depends on that.
Trade-off.  Text is never words: a tokenizer sees nothing, a block hash sees everything.
Invariant.  Equal seeds give equal requests, however far a run gets and whatever answers take how long; memory does not
grow with the length of a trace.
"""

from inferplane_planner.workload.arrivals import Bursty, Constant, Day, Poisson, Ramp, Rate, Steps
from inferplane_planner.workload.errors import WorkloadError
from inferplane_planner.workload.open_loop import OpenLoop, Shape
from inferplane_planner.workload.prompts import Piece, Prompt, Request
from inferplane_planner.workload.registry import WORKLOADS, workload
from inferplane_planner.workload.sessions import Sessions
from inferplane_planner.workload.source import Workload

__all__ = [
    "WORKLOADS",
    "Bursty",
    "Constant",
    "Day",
    "OpenLoop",
    "Piece",
    "Poisson",
    "Prompt",
    "Ramp",
    "Rate",
    "Request",
    "Sessions",
    "Shape",
    "Steps",
    "Workload",
    "WorkloadError",
    "workload",
]
