"""A fleet in virtual time: the production router and the simulated engine, run unchanged, by the event.

Problem.  Routing, planning and sizing are judged under load, and load costs accelerators and hours.
Idea.  Everything that decides is pure and takes the time as an argument: the router's core, the engine's core, the
planner's step.  So one loop over an agenda of events drives them all; what lies between them in a cluster (a network,
agents, start-ups, crashes) is a delay or a value here.  No text is made: a prompt is a row of named pieces, and its
blocks are named as they are in production.
Trade-off.  Gateways take no time, and agents are reduced to what they say: what the processes themselves cost is
measured elsewhere.
Invariant.  A scenario, a workload and a seed give one outcome, bit for bit; memory does not grow with the length of
the trace.
"""

from inferplane_simulator.errors import ScenarioError
from inferplane_simulator.outcome import Outcome
from inferplane_simulator.run import Simulation
from inferplane_simulator.scenario import Crash, Delays, PoolSpec, Scenario, Slo

__all__ = ["Crash", "Delays", "Outcome", "PoolSpec", "Scenario", "ScenarioError", "Simulation", "Slo"]
