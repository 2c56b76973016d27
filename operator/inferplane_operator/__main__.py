"""`python -m inferplane_operator`: read the settings, run until told to stop, finish what runs.

Exits 0 after a drain, 1 when somebody else has the Lease (start anew), 2 on wrong configuration.
"""

import os
import secrets
import socket
import sys

from lightkube.core.exceptions import ConfigError

import inferplane_runtime.first_process  # noqa: F401 - before all that takes long
from inferplane_operator.app import Operator
from inferplane_operator.cluster.transport import connection
from inferplane_operator.handlers.kopf_logging import quiet_kopf
from inferplane_operator.reconcile.core import PureCore
from inferplane_operator.reconcile.scene import Settings
from inferplane_operator.settings import OperatorSettings, check, render_options, rule_settings
from inferplane_runtime import logs
from inferplane_runtime.lifecycle import StopSignal, run_process, settle_memory
from inferplane_runtime.settings import SettingsError, load

_WRONG_CONFIGURATION = 2


def main() -> int:
    try:
        settings = load(OperatorSettings, sys.argv[1:], os.environ, program="inferplane-operator")
        check(settings)
        asked = Settings(render_options(settings), settings.gateway_url, rule_settings(settings))
        core = PureCore(asked)
        config = connection(settings.kubeconfig, settings.context)
    except (SettingsError, ConfigError) as error:
        sys.stderr.write(f"inferplane-operator: {error}\n")
        return _WRONG_CONFIGURATION
    logs.configure(form=settings.log_format, level=settings.log_level, component="operator")
    quiet_kopf()
    settle_memory()
    identity = settings.identity or f"{socket.gethostname()}_{secrets.token_hex(4)}"

    async def serve(stop: StopSignal) -> int:
        return await Operator(settings, config, core=core, identity=identity).run(stop)

    try:
        return run_process(serve)
    except SettingsError as error:
        sys.stderr.write(f"inferplane-operator: {error}\n")
        return _WRONG_CONFIGURATION


if __name__ == "__main__":
    sys.exit(main())
