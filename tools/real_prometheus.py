"""Run Debian's Prometheus on a few targets, for tests of rules and dashboards.

It listens on a port that the system chooses, keeps its data in the folder it is given, and ends with its caller.
"""

import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

import httpx
import yaml

from bare_engine import tied_to_parent

FOLDER: Final = Path(__file__).resolve().parents[1] / ".cache" / "prometheus"
SCRAPE_S: Final = 1.0
_LISTENING: Final = re.compile(r'msg="Listening on" address=(\S+)')
_START_S, _POLL_S = 60.0, 0.1


class PrometheusError(Exception):
    """It did not start, or did not take a query; the text holds why."""


def find_program(name: str) -> Path | None:
    """Return the path of `prometheus` or `promtool`, if there is one."""
    fetched = FOLDER / name
    on_path = shutil.which(name)
    return fetched if fetched.is_file() else Path(on_path) if on_path else None


@dataclass(frozen=True, slots=True)
class Target:
    """A page to read, with labels that a cluster's scrape configuration would add."""

    job: str
    address: str
    """host:port."""
    labels: Mapping[str, str]


@dataclass(slots=True)
class RealPrometheus:
    """A running server."""

    process: subprocess.Popen[bytes]
    client: httpx.Client

    @classmethod
    def start(cls, program: Path, folder: Path, targets: Sequence[Target], rules: Mapping[str, Any]) -> Self:
        """Start and wait until it answers.  Raises PrometheusError."""
        config = _configure(folder, targets, rules)
        command = [*tied_to_parent("TERM"), str(program), f"--config.file={config}"]
        command += [f"--storage.tsdb.path={folder / 'data'}", "--web.listen-address=127.0.0.1:0"]
        log = folder / "prometheus.log"
        with log.open("wb") as file:
            process = subprocess.Popen(command, stdout=file, stderr=file)  # noqa: S603 - our own command
        server = cls(process, httpx.Client(timeout=30))
        try:
            server.client.base_url = f"http://{_address(process, log)}"
            server.until(server._unready, limit_s=_START_S)
        except BaseException:
            server.stop()
            raise
        return server

    def stop(self) -> None:
        """End it; its data stay in the folder."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        self.client.close()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def query(self, expr: str) -> list[dict[str, Any]]:
        """Return an instant query's vector.  Raises PrometheusError."""
        answer = self.client.get("/api/v1/query", params={"query": expr}).json()
        if answer["status"] != "success":
            raise PrometheusError(f"{answer['error']}: {expr}")
        result: list[dict[str, Any]] = answer["data"]["result"]
        return result

    def rules(self) -> list[dict[str, Any]]:
        """Return all rules with their state."""
        answer = self.client.get("/api/v1/rules").json()
        return [rule for group in answer["data"]["groups"] for rule in group["rules"]]

    def firing(self) -> list[dict[str, str]]:
        """Return the labels of the alerts that fire."""
        answer = self.client.get("/api/v1/alerts").json()
        return [alert["labels"] for alert in answer["data"]["alerts"] if alert["state"] == "firing"]

    def until(self, missing: Callable[[], str], *, limit_s: float) -> float:
        """Return the seconds after which nothing is missing.  Raises PrometheusError, which says what is."""
        began = time.monotonic()
        while still := missing():
            if time.monotonic() - began > limit_s:
                raise PrometheusError(f"after {limit_s:g} s: {still}")
            time.sleep(_POLL_S)
        return time.monotonic() - began

    def _unready(self) -> str:
        try:
            return "" if self.client.get("/-/ready").is_success else "it is not ready"
        except httpx.TransportError as error:
            return str(error) or "it does not answer"


def _configure(folder: Path, targets: Sequence[Target], rules: Mapping[str, Any]) -> Path:
    (folder / "rules.yaml").write_text(_yaml(rules), "utf-8")
    pages = [
        {
            "job_name": f"{target.job}-{number}",
            "static_configs": [{"targets": [target.address], "labels": dict(target.labels)}],
        }
        for number, target in enumerate(targets)
    ]
    every = f"{int(SCRAPE_S * 1000)}ms"
    config = {
        "global": {"scrape_interval": every, "scrape_timeout": every, "evaluation_interval": "1s"},
        "rule_files": ["rules.yaml"],
        "scrape_configs": [{**page, "honor_labels": True} for page in pages],
    }
    path = folder / "prometheus.yaml"
    path.write_text(_yaml(config), "utf-8")
    return path


def _address(process: subprocess.Popen[bytes], log: Path) -> str:
    began = time.monotonic()
    while time.monotonic() - began < _START_S and process.poll() is None:
        if found := _LISTENING.search(log.read_text("utf-8", "replace")):
            return found[1]
        time.sleep(_POLL_S)
    raise PrometheusError(f"it did not start:\n{log.read_text('utf-8', 'replace')[-2000:]}")


def _yaml(value: object) -> str:
    text: str = yaml.safe_dump(value, sort_keys=False)  # pyright: ignore[reportUnknownMemberType]  # the stub's
    return text
