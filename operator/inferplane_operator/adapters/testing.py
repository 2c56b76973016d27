"""Agents without processes: each address is a small state that tests look into."""

from dataclasses import dataclass, field, replace

from inferplane_operator.adapters.agents import Listing
from inferplane_operator.reconcile.adapter import Reported, ReportedAdapter, WantedAdapter


@dataclass
class FakeAgent:
    """One agent: what it has, what it fails to load, and how often it was told."""

    adapters: dict[str, ReportedAdapter] = field(default_factory=dict[str, ReportedAdapter])
    broken: dict[str, str] = field(default_factory=dict[str, str])
    """Adapter to the error with which its load fails."""
    away: str = ""
    slow: bool = False
    """Loads stay under way until `finish`."""
    told: list[str] = field(default_factory=list[str])

    def finish(self) -> None:
        for name, each in self.adapters.items():
            if each.state is Reported.LOADING:
                self.adapters[name] = replace(each, state=Reported.LOADED, serving=each.revision)


class FakeAgents:
    """`AgentAdapters` over fakes."""

    def __init__(self, *addresses: str) -> None:
        self.at = {address: FakeAgent() for address in addresses}

    async def list(self, address: str) -> Listing:
        agent = self.at.get(address)
        if agent is None or agent.away:
            return Listing(problem=agent.away if agent is not None else "its agent does not answer (ConnectError)")
        return Listing(tuple(agent.adapters.values()))

    async def load(self, address: str, adapter: WantedAdapter) -> str:
        agent = self.at[address]
        agent.told.append(f"+{adapter.name}")
        before = agent.adapters.get(adapter.name)
        entry = ReportedAdapter(
            adapter.name, adapter.revision, adapter.source, serving=before.serving if before is not None else None
        )
        if error := agent.broken.get(adapter.name, ""):
            entry = replace(entry, state=Reported.FAILED, error=error)
        agent.adapters[adapter.name] = entry
        if not agent.slow and not error:
            agent.finish()
        return ""

    async def unload(self, address: str, name: str) -> str:
        agent = self.at[address]
        agent.told.append(f"-{name}")
        agent.adapters.pop(name, None)
        return ""
