"""Show the whole way of a request on this machine: real vLLM, prefill, KV transfer, decode, a conversation.

Everything it needs it makes by the same commands that a user would type; the service is `inferplane up` on
examples/smollm2.yaml.  What is printed is what router, agents and engines say of themselves, so the demonstration is
also a check: it ends with status 1 when no KV went from prefill to decode.
"""

import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping
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
SETUP_LIMIT_S = 3600.0
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
    sources: Mapping[str, float]
    """Where the decode engine's prompt tokens came from."""


def main() -> int:
    set_up()
    folder = Path(tempfile.mkdtemp(prefix="inferplane-demo-"))
    port = GATEWAY_PORT if is_free(GATEWAY_PORT) else 0
    say("\nStarting examples/smollm2.yaml: one prefill and two decode workers, each with a vLLM engine.")
    say(f"This takes a minute or more; logs are in {folder}/logs")
    service = LocalService.start(MANIFEST, folder, port=port)
    try:
        say(f"ready after {service.wait_ready(READY_LIMIT_S, tell=say):.0f} s: {service.ready_status().url}")
        transferred = converse(service)
    except ServiceFailedError as error:
        say(f"\n{error}")
        return 1
    finally:
        say("\nDraining ...")
        service.stop()
        shutil.rmtree(folder, ignore_errors=True)
    if transferred == 0:
        say("No KV went from prefill to decode: something is wrong.")
        return 1
    say(f"{transferred:.0f} prompt tokens' KV went from prefill to decode; see README.md for what to try next.")
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


def converse(service: LocalService) -> float:
    """Hold the conversation; return how many prompt tokens the decode side pulled instead of computing them."""
    messages: list[dict[str, str]] = []
    transferred = 0.0
    for number, question in enumerate(QUESTIONS, 1):
        messages.append({"role": "user", "content": question})
        turn = ask(service, messages)
        messages.append({"role": "assistant", "content": turn.answer})
        transferred += turn.sources.get("external_kv_transfer", 0)
        report(number, question, turn)
    return transferred


def ask(service: LocalService, messages: list[dict[str, str]]) -> Turn:
    status = service.ready_status()
    before = {worker.name: prompt_tokens_by_source(worker.engine_url) for worker in status.workers}
    body = {"model": status.served_names[0], "messages": messages, "max_tokens": 96, "temperature": 0}
    response = httpx.post(f"{status.url}/v1/chat/completions", json=body, timeout=ANSWER_LIMIT_S)
    if not response.is_success:
        raise ServiceFailedError(f"the gateway answered {response.status_code}: {response.text}")
    decode = response.headers["x-inferplane-worker"]
    after = prompt_tokens_by_source(service.worker(decode).engine_url)
    return Turn(
        answer=response.json()["choices"][0]["message"]["content"],
        usage=response.json()["usage"],
        prefill_worker=response.headers.get("x-inferplane-prefill-worker", ""),
        decode_worker=decode,
        record=service.explain(response.headers["x-request-id"]) or {},
        sources={name: count - before[decode].get(name, 0) for name, count in after.items()},
    )


def report(number: int, question: str, turn: Turn) -> None:
    cached = turn.usage["prompt_tokens_details"]["cached_tokens"]
    say(f"\n{number}. {question}\n   {' '.join(turn.answer.split())}\n")
    say(f"   prompt tokens        {turn.usage['prompt_tokens']}, answered with {turn.usage['completion_tokens']}")
    say(f"   prefill              {turn.prefill_worker or 'by the decode worker itself'}")
    say(f"     cached tokens      predicted {turn.record.get('predicted_prefill_cached_tokens')}, real {cached}")
    say(f"   decode               {turn.decode_worker}")
    say(
        f"     cached tokens      predicted {turn.record.get('predicted_decode_cached_tokens')}, "
        f"real {turn.sources.get('local_cache_hit', 0):.0f}"
    )
    say(
        f"     rest of the prompt {turn.sources.get('external_kv_transfer', 0):.0f} tokens' KV pulled from prefill, "
        f"{turn.sources.get('local_compute', 0):.0f} computed here"
    )


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
