"""Adapters' shell: asks agents what they have, carries out what `reconcile.adapter` decides, and remembers failures.

Used by the operator and by the local runner.
"""

from inferplane_operator.adapters.agents import AgentAdapters, HttpAgentAdapters, Listing
from inferplane_operator.adapters.exchange import Exchange
from inferplane_operator.adapters.round import AdapterRound

__all__ = ["AdapterRound", "AgentAdapters", "Exchange", "HttpAgentAdapters", "Listing"]
