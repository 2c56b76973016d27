"""Makes several vLLM engines bearable on the few cores of one machine, as a vLLM plugin.

vLLM's NIXL connector is written for servers: on a CPU it pins every engine's worker to the last core of the machine,
and NIXL's progress thread spins on a core of its own as long as the engine lives.  Three engines on a laptop then fight
for one core while three others burn.  Neither is an option of vLLM or NIXL, so this plugin, which vLLM loads by its own
mechanism when this folder is on PYTHONPATH, leaves the pinning out and lets the thread sleep a millisecond between
polls.  On an accelerator it does nothing.

The price: up to a millisecond more per KV transfer.  Whatever this file touches may be gone in another version of vLLM;
then it says so in the engine's log and leaves the engine as it is.
"""

# pyright: reportMissingImports=false, reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
# vLLM lives in the engine's environment only

import logging
import sys
from importlib import import_module
from typing import Any

PROGRESS_DELAY_US = 1000

_log = logging.getLogger("vllm.inferplane_vllm_cpu")


def register() -> None:
    """Apply both changes; vLLM calls this in each of its processes, before the connector is made."""
    platform: Any = import_module("vllm.platforms").current_platform
    if not platform.is_cpu():
        return
    _leave_workers_unpinned(type(platform))
    _calm_progress_thread(import_module("vllm.distributed.nixl_utils"))


def _leave_workers_unpinned(platform: Any) -> None:
    # the connector pins to the last core of each list that this returns, and nothing else asks
    if hasattr(platform, "discover_numa_topology"):
        platform.discover_numa_topology = classmethod(lambda _: [])
    else:
        _log.warning("this vLLM is unknown to inferplane_vllm_cpu: workers may be pinned to one core")


def _calm_progress_thread(nixl_utils: Any) -> None:
    load = getattr(nixl_utils, "_load_nixl_attr", None)
    if load is None:
        _log.warning("this vLLM is unknown to inferplane_vllm_cpu: NIXL's progress thread may spin on a core")
        return

    def load_calmly(name: str) -> Any:
        value = load(name)
        if name == "NixlWrapper" and value is not None:
            _calm_bindings(sys.modules[value.__module__].nixlBind)
        return value

    nixl_utils._load_nixl_attr = load_calmly  # noqa: SLF001 - there is no public place, see the module's text


def _calm_bindings(bindings: Any) -> None:
    make_agent = bindings.nixlAgent
    if getattr(make_agent, "calmed", False):
        return

    def make_calm_agent(name: str, config: Any) -> Any:
        config.pthrDelay = PROGRESS_DELAY_US
        return make_agent(name, config)

    make_calm_agent.calmed = True  # type: ignore[attr-defined]  # vLLM may load plugins twice
    bindings.nixlAgent = make_calm_agent
