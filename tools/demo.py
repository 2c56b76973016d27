"""Show the whole way of a request on this machine: real vLLM, prefill, KV transfer, decode, a conversation.

Everything it needs it makes by the same commands that a user would type; the service is `inferplane up` on
examples/smollm2.yaml.  What is printed of a request is what router and agents say of it; the engines' own counters, in
which other requests show too (workers check each other now and then), are asked whether that much was really pulled.
So the demonstration is also a check: it ends with status 1 when no KV went from prefill to decode.
"""

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from bare_engine import ENGINE_PYTHON, REPOSITORY
from local_service import LocalService, ServiceFailedError, prompt_tokens_by_source

MANIFEST = REPOSITORY / "examples" / "smollm2.yaml"
MODEL = REPOSITORY / ".cache" / "models" / "smollm2-135m-instruct"
GATEWAY_PORT = 8000
READY_LIMIT_S = 900.0
ANSWER_LIMIT_S = 300.0
REPORT_LIMIT_S = 30.0
SETUP_LIMIT_S = 3600.0
PULLED = "external_kv_transfer"
QUESTIONS = (
    "I plan a week in Paris with two children, by train and on foot. Which three places should we see, and why?",
    "Which of them is best on a rainy day?",
)


@dataclass(frozen=True, slots=True)
class Turn:
    """One question and everything that is known about its way."""

    answer: str
    usage: Mapping[str, Any]
    prefill_worker: str
    decode_worker: str
    record: Mapping[str, Any]
    handed: Mapping[str, Any]
    """What the decode side's agent reported; empty when nothing was handed over."""
    pulled_by_engine: float
    """Prompt tokens that the decode engine pulled meanwhile, by its own counter."""

    @property
    def transferred(self) -> int:
        return int(self.handed.get("transferred_tokens", 0))


def main() -> int:
    set_up()
    folder = Path(tempfile.mkdtemp(prefix="inferplane-demo-"))
    port = GATEWAY_PORT if is_free(GATEWAY_PORT) else 0
    say("\nStarting examples/smollm2.yaml: one prefill and two decode workers, each with a vLLM engine.")
    say(f"This takes some minutes; logs are in {folder}/logs")
    if not port:
        say(f"Port {GATEWAY_PORT} is taken, so the gateway gets another one.")
    service = LocalService.start(MANIFEST, folder, port=port)
    try:
        say(f"ready after {service.wait_ready(READY_LIMIT_S, tell=tell):.0f} s: {service.ready_status().url}")
        turns = converse(service)
    except ServiceFailedError as error:
        say(f"\n{error}\nThe logs are kept in {folder}/logs")
        return 1
    finally:
        say("\nDraining ...")
        service.stop()
    return conclude(turns, folder)


def conclude(turns: Sequence[Turn], folder: Path) -> int:
    """Say whether KV moved; keep the logs where it did not."""
    moved, pulled = sum(turn.transferred for turn in turns), sum(turn.pulled_by_engine for turn in turns)
    if not 0 < moved <= pulled:
        say(f"{moved} tokens' KV were handed over and engines pulled {pulled:.0f}: something is wrong.")
        say(f"The logs are kept in {folder}/logs")
        return 1
    shutil.rmtree(folder, ignore_errors=True)
    say(f"{moved} prompt tokens' KV went from prefill to decode.")
    say("To keep the service and ask it yourself: .venv/bin/inferplane up -f examples/smollm2.yaml")
    return 0


def set_up() -> None:
    """Make what is missing, after saying what that costs."""
    needs: list[str] = []
    if not (REPOSITORY / ".venv-engine" / ".complete").exists():
        needs.append("vLLM for CPUs and what it needs: 3 GB to download, 5 GB on disk, into .venv-engine")
    if not MODEL.exists():
        needs.append("SmolLM2-135M-Instruct: 93 MB to download, 270 MB on disk, into .cache/models")
    if needs:
        say("This will fetch, once:")
        for need in needs:
            say(f"  - {need}")
    run("make", "--no-print-directory", ".venv-engine/.complete")
    run(str(ENGINE_PYTHON), "tools/fetch_smollm2.py", str(REPOSITORY / ".venv" / "bin" / "uv"))


def run(*command: str) -> None:
    quiet = {**os.environ, "TQDM_DISABLE": "1", "TRANSFORMERS_VERBOSITY": "error"}
    done = subprocess.run(command, cwd=REPOSITORY, env=quiet, check=False, timeout=SETUP_LIMIT_S)  # noqa: S603 - ours
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)} failed with status {done.returncode}")


def is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def converse(service: LocalService) -> list[Turn]:
    messages: list[dict[str, str]] = []
    turns: list[Turn] = []
    for number, question in enumerate(QUESTIONS, 1):
        messages.append({"role": "user", "content": question})
        turn = ask(service, messages)
        messages.append({"role": "assistant", "content": turn.answer})
        turns.append(turn)
        report(number, question, turn)
    return turns


def ask(service: LocalService, messages: list[dict[str, str]]) -> Turn:
    status = service.ready_status()
    before = {worker.name: prompt_tokens_by_source(worker.engine_url) for worker in status.workers}
    body = {"model": status.served_names[0], "messages": messages, "max_tokens": 96, "temperature": 0}
    response = httpx.post(f"{status.url}/v1/chat/completions", json=body, timeout=ANSWER_LIMIT_S)
    if not response.is_success:
        raise ServiceFailedError(f"the gateway answered {response.status_code}: {response.text}")
    decode = response.headers["x-inferplane-worker"]
    record = reported(service, response.headers["x-request-id"])
    after = prompt_tokens_by_source(service.worker(decode).engine_url)
    return Turn(
        answer=response.json()["choices"][0]["message"]["content"],
        usage=response.json()["usage"],
        prefill_worker=response.headers.get("x-inferplane-prefill-worker", ""),
        decode_worker=decode,
        record=record,
        handed=decode_report(record),
        pulled_by_engine=after.get(PULLED, 0) - before[decode].get(PULLED, 0),
    )


def reported(service: LocalService, request_id: str) -> Mapping[str, Any]:
    """Return the router's record once the decode side has reported, which it does a moment after its answer."""
    deadline = time.monotonic() + REPORT_LIMIT_S
    while not decode_report(record := service.explain(request_id) or {}):
        if time.monotonic() > deadline:
            raise ServiceFailedError(f"no worker has reported what became of request {request_id}")
        time.sleep(0.1)
    return record


def decode_report(record: Mapping[str, Any]) -> Mapping[str, Any]:
    nothing: Mapping[str, Any] = {}
    return next((each for each in record.get("observed", ()) if each["side"] != "ROLE_PREFILL"), nothing)


def report(number: int, question: str, turn: Turn) -> None:
    cached = turn.usage["prompt_tokens_details"]["cached_tokens"]
    say(f"\n{number}. {question}\n   {' '.join(turn.answer.split())}\n")
    say(f"   prompt tokens        {turn.usage['prompt_tokens']}, answered with {turn.usage['completion_tokens']}")
    say(f"   prefill              {turn.prefill_worker or 'by the decode worker itself'}")
    say(f"     cached tokens      predicted {turn.record.get('predicted_prefill_cached_tokens')}, real {cached}")
    say(f"   decode               {turn.decode_worker}")
    say(
        f"     cached tokens      predicted {turn.record.get('predicted_decode_cached_tokens')}, "
        f"real {turn.handed['decode_cached_tokens']}"
    )
    say(f"     KV from prefill    of the other {turn.transferred} prompt tokens")


def tell(line: str) -> None:
    """Pass on what `up` says, but for how to go on from there: this service ends with the conversation."""
    if not any(hint in line for hint in ("  ready: ", "  curl ", "  Ctrl-C ")):
        say(line)


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
