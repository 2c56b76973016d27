"""A real Chromium, driven over a pair of pipes by its DevTools protocol: for tests of pages, and for their screenshots.

Nothing but the browser is needed: its protocol is JSON between NUL bytes, on file descriptors 3 and 4 of the process.
It knows no host but this machine.  Invariant: the browser and its children end with the context that started it.

    python tools/chromium.py URL PICTURE.png [--dark] [--size 1280x1000] [--keys j,Enter]
"""

import argparse
import asyncio
import base64
import contextlib
import fcntl
import json
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

_NAMES: Final = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome")
_FLAGS: Final = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
)
_ONTO_3_AND_4: Final = (
    "import os,sys;os.dup2(int(sys.argv[1]),3);os.dup2(int(sys.argv[2]),4);os.execv(sys.argv[3],sys.argv[3:])"
)
_NUL: Final = b"\0"
_MOST_BYTES: Final = 64 << 20
_ANSWER_S: Final = 60.0
_END_S: Final = 10.0
_KEYS: Final = {"Enter": (13, "\r"), "Escape": (27, ""), "Tab": (9, "")}
_BAD: Final = frozenset({"Runtime.exceptionThrown", "Log.entryAdded", "Runtime.consoleAPICalled"})


def find_chromium() -> str | None:
    """Return the path of a browser that this machine has."""
    return next((path for name in _NAMES if (path := shutil.which(name)) is not None), None)


class Browser:
    """Speaks the protocol; use `chromium`."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.WriteTransport) -> None:
        self._reader = reader
        self._writer = writer
        self._asked = 0
        self._waiting: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self.events: list[dict[str, Any]] = []

    async def listen(self) -> None:
        """Take answers and events until the browser ends."""
        with contextlib.suppress(asyncio.IncompleteReadError):
            while True:
                message = json.loads((await self._reader.readuntil(_NUL))[:-1])
                waiting = self._waiting.pop(message.get("id", -1), None)
                if waiting is None:
                    self.events.append(message)
                elif not waiting.done():
                    waiting.set_result(message)
        for waiting in self._waiting.values():
            waiting.cancel()

    async def call(self, method: str, *, session: str | None = None, **params: object) -> dict[str, Any]:
        """Return the result of a call; a RuntimeError where the browser refuses it."""
        self._asked += 1
        message = {"id": self._asked, "method": method, "params": params}
        answer: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._waiting[self._asked] = answer
        self._writer.write(json.dumps(message | ({"sessionId": session} if session else {})).encode() + _NUL)
        async with asyncio.timeout(_ANSWER_S):
            found = await answer
        if "error" in found:
            raise RuntimeError(f"{method}: {found['error']['message']}")
        result: dict[str, Any] = found["result"]
        return result

    async def open(self, url: str, *, size: tuple[int, int] = (1280, 1000)) -> "Page":
        """Open a page in a tab of its own."""
        target = (await self.call("Target.createTarget", url="about:blank"))["targetId"]
        session = (await self.call("Target.attachToTarget", targetId=target, flatten=True))["sessionId"]
        page = Page(self, session)
        for domain in ("Runtime", "Log", "Page", "Network"):
            await page.call(f"{domain}.enable")
        metrics = dict(zip(("width", "height"), size, strict=True), deviceScaleFactor=1, mobile=False)
        await page.call("Emulation.setDeviceMetricsOverride", **metrics)
        await page.call("Page.navigate", url=url)
        return page


class Page:
    """One tab."""

    def __init__(self, browser: Browser, session: str) -> None:
        self._browser = browser
        self._session = session

    async def call(self, method: str, **params: object) -> dict[str, Any]:
        return await self._browser.call(method, session=self._session, **params)

    async def get(self, expression: str) -> Any:
        """Return what a script's expression gives, promises included; a RuntimeError where it throws."""
        found = await self.call("Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in found:
            raise RuntimeError(f"{expression}: {found['exceptionDetails']}")
        return found["result"].get("value")

    async def until(self, condition: str) -> None:
        """Wait until an expression is true in the page; a TimeoutError if it never is."""
        await self.get(f"(async () => {{ while (!({condition})) await new Promise((go) => setTimeout(go, 20)); }})()")

    async def press(self, key: str) -> None:
        """Press and release a key."""
        code, text = _KEYS.get(key, (ord(key[0].upper()), key))
        common = {"key": key, "windowsVirtualKeyCode": code}
        await self.call("Input.dispatchKeyEvent", type="keyDown", text=text, **common)
        await self.call("Input.dispatchKeyEvent", type="keyUp", **common)

    async def prefer(self, *, dark: bool) -> None:
        """Say which colours whoever looks prefers."""
        feature = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        await self.call("Emulation.setEmulatedMedia", features=[feature])

    async def picture(self) -> bytes:
        """Return a screenshot as PNG."""
        return base64.b64decode((await self.call("Page.captureScreenshot"))["data"])

    def complaints(self) -> list[str]:
        """Return what the browser has complained of: exceptions, errors, and requests that failed."""
        mine = [it for it in self._browser.events if it.get("sessionId") == self._session]
        return [json.dumps(it["params"]) for it in mine if it["method"] in _BAD and _is_bad(it)]


def _is_bad(event: dict[str, Any]) -> bool:
    match event["method"]:
        case "Runtime.consoleAPICalled":
            return event["params"]["type"] in {"error", "warning", "assert"}
        case "Log.entryAdded":
            return event["params"]["entry"]["level"] in {"error", "warning"}
        case _:
            return True


@asynccontextmanager
async def chromium(path: str) -> AsyncGenerator[Browser]:
    """Run a browser with a profile of its own."""
    loop = asyncio.get_running_loop()
    with tempfile.TemporaryDirectory(prefix="chromium-", ignore_cleanup_errors=True) as profile:
        (to_browser, ours_out), (ours_in, from_browser) = os.pipe(), os.pipe()
        theirs = [fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10) for end in (to_browser, from_browser)]
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", _ONTO_3_AND_4, *map(str, theirs), path, *_FLAGS, f"--user-data-dir={profile}"),
            pass_fds=theirs,
            start_new_session=True,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
        )
        for end in (to_browser, from_browser, *theirs):
            os.close(end)
        reader = asyncio.StreamReader(limit=_MOST_BYTES)
        reading, _ = await loop.connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(ours_in, "rb")
        )
        writing, _ = await loop.connect_write_pipe(asyncio.BaseProtocol, os.fdopen(ours_out, "wb"))
        browser = Browser(reader, writing)
        listening = asyncio.create_task(browser.listen(), name="chromium")
        try:
            yield browser
        finally:
            await _end(process, browser)
            writing.close()
            reading.close()
            await asyncio.wait([listening])


async def _end(process: asyncio.subprocess.Process, browser: Browser) -> None:
    """Ask it to end; kill it and its children where it does not."""
    with contextlib.suppress(TimeoutError, RuntimeError, asyncio.CancelledError):
        async with asyncio.timeout(_END_S):
            await browser.call("Browser.close")
            await process.wait()
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    await process.wait()


async def _shoot(options: argparse.Namespace) -> None:
    path = find_chromium()
    if path is None:
        raise SystemExit("no Chromium on this machine")
    width, height = map(int, options.size.split("x"))
    async with chromium(path) as browser:
        page = await browser.open("about:blank", size=(width, height))
        await page.prefer(dark=options.dark)
        await page.call("Page.navigate", url=options.url)
        await page.until(options.until)
        for key in filter(None, options.keys.split(",")):
            await page.press(key)
        await asyncio.sleep(options.wait)
        options.picture.write_bytes(await page.picture())
        sys.stdout.write("".join(f"{each}\n" for each in page.complaints()))


def main() -> None:
    """Take one picture of a page."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("url")
    parser.add_argument("picture", type=Path)
    parser.add_argument("--dark", action="store_true")
    parser.add_argument("--size", default="1280x1000")
    parser.add_argument("--keys", default="", help="keys to press before, with commas between them")
    parser.add_argument("--until", default="document.readyState === 'complete'", help="what has to be true before")
    parser.add_argument("--wait", type=float, default=0.5, help="seconds before the picture is taken")
    asyncio.run(_shoot(parser.parse_args()))


if __name__ == "__main__":
    main()
