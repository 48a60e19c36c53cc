"""Takes evals out of the hosted Evals service: every eval, run, output item and file, as answered, into one folder.

    pip install openai
    OPENAI_API_KEY=sk-... python evals_export.py my-evals

Needs only Python 3.9 or newer, the `openai` package and your own key (evals belong to a project: one key and one
folder for each). Start it again after any interruption, kill -9 included: it verifies what it has by hash and fetches
only what lacks.

    my-evals/evals/ID.json      an eval          my-evals/items/RUN.jsonl   the output items of a run, one per line
    my-evals/runs/ID.json       a run            my-evals/files/ID          a file they name, and ID.json about it
    my-evals/manifest.json      counts, a SHA-256 of each file, what was deleted meanwhile (gone), what was refused

Exit codes: 0 all is here (what was deleted meanwhile is named), 1 something lacks: run it again, 2 wrong usage or no
key, 3 the service refuses the key, has no evals for it or has closed, 4 all is here but files that the service hands
out to nobody, 130 interrupted by Ctrl-C: run it again.
"""

from __future__ import annotations

import argparse
import contextlib
import email.utils
import hashlib
import json
import os
import re
import sys
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import urlsplit

import openai

T = TypeVar("T")

HOSTED_URL = "https://api.openai.com/v1"
ATTEMPTS = 8
"""Of one request, before it is left for the next start; a 429 counts as none of them."""
LONGEST_WAIT_S = 60.0
"""Between attempts, where the service asks for no longer one."""
THINGS_IN_VAIN = 3
"""After so many lists or files in a row without an answer it is asked whether the service is there at all."""
NO_EVALS = "The service lists no evals for this key: is it a key of the right project?"
OTHER_EVALS = (
    "The service lists other evals than this folder has: a key of another project, or another server? Take another"
    " folder for them."
)
FINAL = ("completed", "failed", "canceled")
HTTP_GONE = (404, 410)
FILE_ID = re.compile(r"file[-_][A-Za-z0-9_-]+")
SPACE = re.compile(r"[ \t\r\n]*")


class Gone(Exception):
    """404 or 410: what was asked for does not exist (any more)."""


class Refused(Exception):
    """Another 4xx: asking again gives the same answer."""


class Unanswered(Exception):
    """No whole answer after all attempts."""


class Stop(Exception):
    """Nothing more can be done in this start.

    code: the exit code.
    """

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class Closed(Stop):
    """The Evals service has closed, or closed to this key."""

    def __init__(self, message: str) -> None:
        super().__init__(3, message)


class Screen:
    """Progress on stderr: one line, rewritten on a terminal, every few seconds elsewhere. Never shows the key."""

    def __init__(self, key: str) -> None:
        self._key, self._last_s = key, 0.0

    def redact(self, text: str) -> str:
        """The text without the key, whole or as the service abridges it."""
        return re.sub(r"sk-[\w*.-]{4,}", "sk-***", text.replace(self._key, "***"))

    def say(self, text: str) -> None:
        """A line that stays."""
        print(("\r\x1b[K" if sys.stderr.isatty() else "") + self.redact(text), file=sys.stderr, flush=True)

    def show(self, text: str) -> None:
        """A line that the next one replaces."""
        now_s = time.monotonic()
        if sys.stderr.isatty():
            print("\r\x1b[K" + self.redact(text)[:110], end="", file=sys.stderr, flush=True)
        elif now_s - self._last_s >= 5:
            self._last_s = now_s
            self.say(text)


@dataclass
class Element:
    """One object of a page: its id, its bytes as answered (on one line), and what they say."""

    id: str
    raw: bytes
    says: dict[str, Any]


def split_page(text: str) -> tuple[list[Element], dict[str, Any]]:
    """The objects of a page with the very text they were answered in, and the page's other fields.

    Numbers keep their spelling and unknown fields stay, because nothing is written anew. Line breaks can only stand
    between tokens; they become spaces, so that an object is one line. ValueError: no page.
    """
    decode, elements, rest = json.JSONDecoder().raw_decode, list[Element](), dict[str, Any]()

    def skip(at: int) -> int:
        found = SPACE.match(text, at)
        return found.end() if found else at

    def expect(at: int, sign: str) -> int:
        if not text.startswith(sign, at):
            raise ValueError(f"no {sign} at {at}")
        return skip(at + 1)

    at = expect(skip(0), "{")
    while True:
        name, at = decode(text, at)
        at = expect(skip(at), ":")
        if name == "data":
            at = expect(at, "[")
            while not text.startswith("]", at):
                says, end = decode(text, at)
                if not isinstance(says, dict) or not isinstance(says.get("id"), str):
                    raise ValueError("an object without an id")
                raw = text[at:end].replace("\r", " ").replace("\n", " ")
                elements.append(Element(says["id"], raw.encode(), says))
                at = skip(end)
                at = at if text.startswith("]", at) else expect(at, ",")
            at += 1
        else:
            rest[name], at = decode(text, at)
        at = skip(at)
        if text.startswith("}", at):
            return elements, rest
        at = expect(at, ",")


def named_files(says: object) -> Iterator[str]:
    """Ids of the files that an eval, a run or an output item names."""
    if isinstance(says, list):
        for part in says:
            yield from named_files(part)
    elif isinstance(says, dict):
        if says.get("type") == "file_id" and isinstance(says.get("id"), str):
            yield says["id"]
        names = [says.get("file_id"), *(says["file_ids"] if isinstance(says.get("file_ids"), list) else [])]
        yield from (name for name in names if isinstance(name, str) and FILE_ID.fullmatch(name))
        for part in says.values():
            yield from named_files(part)


def wait_asked_for(error: Exception) -> float | None:
    """Seconds that the service asks to wait, if it does."""
    headers = error.response.headers if isinstance(error, openai.APIStatusError) else {}
    with contextlib.suppress(KeyError, ValueError):
        return max(0.0, float(headers["retry-after-ms"]) / 1000)
    told = headers.get("retry-after", "")
    with contextlib.suppress(ValueError):
        return max(0.0, float(told))
    with contextlib.suppress(ValueError, TypeError):
        return max(0.0, email.utils.parsedate_to_datetime(told).timestamp() - time.time())
    return None


def is_broken_off(error: Exception) -> bool:
    """Whether an answer did not come, or not whole."""
    is_of_http = any(
        kind.__name__ == "TransportError" and kind.__module__.startswith("httpx") for kind in type(error).__mro__
    )
    return is_of_http or isinstance(error, (openai.APIConnectionError, ValueError))


def message_of(error: Exception) -> str:
    """What went wrong, for people."""
    if isinstance(error, openai.APIStatusError):
        return f"{error.status_code} {error.message[:300]}"
    if isinstance(error, ValueError):
        return f"an answer that is not whole ({error})"
    return f"no answer ({error})"


class Service:
    """The hosted API, one request at a time; the only place that tries again."""

    def __init__(self, client: openai.OpenAI, screen: Screen) -> None:
        self.client, self._screen = client, screen
        self._unanswered = set[str]()
        """Lists and files since the last answer."""

    def ask(self, what: str, call: Callable[[], T]) -> T:
        """What the call returns; waits and tries again where that can help. Gone, Refused, Unanswered, Stop."""
        failures, throttled = 0, 0
        while True:
            try:
                answer = call()
            except Exception as error:
                message = self._screen.redact(f"{what}: {message_of(error)}")
                status = error.status_code if isinstance(error, openai.APIStatusError) else None
                if status is not None:
                    self._refuse(status, message)
                elif not is_broken_off(error):
                    raise
                throttled += status == 429
                failures += status != 429 or throttled > 10 * ATTEMPTS
                wait_s = wait_asked_for(error)
            else:
                self._unanswered.clear()
                return answer
            if failures >= ATTEMPTS:
                self._give_up(what, message)
            patience_s = min(LONGEST_WAIT_S, 0.5 * 2 ** (failures + min(throttled, ATTEMPTS) - 1))
            if wait_s is None:
                wait_s = patience_s
            elif status == 429:  # For as long as it is crowded, not for as many seconds as it was asked.
                wait_s = max(wait_s, patience_s)
            self._screen.show(f"{message}; again in {wait_s:.0f} s")
            time.sleep(wait_s)

    def _refuse(self, status: int, message: str) -> None:
        """Raises what a status means with which asking again is idle."""
        if status == 401:
            raise Stop(3, f"The service refuses the key. {message}") from None
        if status in HTTP_GONE:
            self._unanswered.clear()
            raise Gone(message) from None
        if status < 500 and status not in (408, 409, 429):
            self._unanswered.clear()
            raise Refused(message) from None

    def _give_up(self, what: str, message: str) -> None:
        """What the service cannot answer, in pages of any size, does not keep the rest back."""
        self._unanswered.add(what)
        if len(self._unanswered) >= THINGS_IN_VAIN and not self._is_there():
            raise Stop(1, f"The service does not answer. {message}")
        raise Unanswered(message)

    def _is_there(self) -> bool:
        """Whether the lightest of all requests is answered."""
        try:
            self.client.evals.with_raw_response.list(limit=1)
        except openai.OpenAIError:
            return False
        self._unanswered.clear()
        return True

    def page(self, what: str, ask_list: Callable[..., Any], after: str | None, limit: int) -> Page:
        """One page behind an id; where a page is too heavy for the service, a smaller one."""

        def call() -> Page:
            cursor: dict[str, Any] = {"after": after} if after else {}
            answer = ask_list(limit=limit, order="asc", **cursor)
            elements, rest = split_page(answer.content.decode())
            return Page(elements, bool(elements) and rest.get("has_more") is not False)

        while True:
            try:
                return self.ask(what, call)
            except Unanswered:
                if limit == 1:
                    raise
                limit = max(1, limit // 10)

    def content(self, file_id: str, part: Path, expected_bytes: int | None) -> None:
        """A file's bytes into `part`, whole."""

        def call() -> None:
            with self.client.files.with_streaming_response.content(file_id) as answer, part.open("wb") as out:
                for chunk in answer.iter_bytes(1 << 20):
                    out.write(chunk)
                out.flush()
                os.fsync(out.fileno())
            size = part.stat().st_size
            if expected_bytes not in (None, size):
                raise ValueError(f"{size} of {expected_bytes} bytes came")

        self.ask(f"content of {file_id}", call)


@dataclass
class Page:
    """A page of a list."""

    elements: list[Element]
    has_more: bool


@dataclass
class State:
    """What is on disk, as the journal's lines add up."""

    files: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    """By path: `sha256`, `bytes`, for output items `lines`."""
    lists: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    """By list: `after` (the last id that is on disk), `is_done`, for output items `offset` and `lines`."""
    runs: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    """By run: `eval` and `is` (its status and counts: whether its items are still those)."""
    named: dict[str, None] = field(default_factory=dict[str, None])
    """Ids of files that something names."""
    gone: dict[str, str] = field(default_factory=dict[str, str])
    refused: dict[str, str] = field(default_factory=dict[str, str])
    is_ended: bool = False
    """Whether the last pass came to its end; the next one asks for all lists anew."""

    def apply(self, line: dict[str, Any]) -> None:
        """Adds one line of the journal."""
        for path in line.get("drop", ()):
            self.files.pop(path, None)
        for name in ("files", "lists", "runs", "gone", "refused"):
            getattr(self, name).update(line.get(name, {}))
        self.named.update(dict.fromkeys(line.get("named", ())))
        for got in line.get("got", ()):
            self.gone.pop(got, None)
            self.refused.pop(got, None)
        self.is_ended = line.get("is_ended", self.is_ended)


def safe(name: str) -> str:
    """An id as a file name; ids of the service are file names already."""
    return re.sub(r"[^A-Za-z0-9_-]", lambda found: f"%{ord(found[0]):02x}", name)[:200]


def hash_of(path: Path) -> dict[str, Any]:
    """Size and SHA-256 of a file."""
    digest, size = hashlib.sha256(), 0
    with path.open("rb") as file:
        while chunk := file.read(1 << 20):
            digest.update(chunk)
            size += len(chunk)
    return {"bytes": size, "sha256": digest.hexdigest()}


def is_as_told(path: Path, told: dict[str, Any]) -> bool:
    """Whether a file is there with the size and the hash of the journal."""
    return path.exists() and path.stat().st_size == told["bytes"] and hash_of(path)["sha256"] == told["sha256"]


class Folder:
    """The export on disk. A file appears whole or not at all; the journal says which ones are complete."""

    def __init__(self, root: Path) -> None:
        self.root, self.state = root, State()
        for name in ("evals", "runs", "items", "files"):
            (root / name).mkdir(parents=True, exist_ok=True)
        self._journal = (root / ".journal.jsonl").open("a+b")
        self._lock()
        self._replay()

    def _lock(self) -> None:
        try:
            import fcntl
        except ImportError:  # no such lock on Windows
            return
        try:
            fcntl.flock(self._journal, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Stop(2, f"Another export is at work in {self.root}.") from None
        except OSError:  # nor on some network drives
            return

    def _replay(self) -> None:
        self._journal.seek(0)
        end = 0
        for line in self._journal:
            if not line.endswith(b"\n"):
                break  # torn by an interruption: what it would have told is fetched again
            self.state.apply(json.loads(line))
            end += len(line)
        self._journal.truncate(end)

    def note(self, **line: Any) -> None:
        """Makes something count, for good."""
        self._journal.write(json.dumps(line).encode() + b"\n")
        self._journal.flush()
        os.fsync(self._journal.fileno())
        self.state.apply(line)

    def write(self, path: str, content: bytes) -> dict[str, Any]:
        """A file, whole or not at all; returns what the journal is to tell of it."""
        part = self.root / f"{path}.part"
        with part.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        part.replace(self.root / path)
        return {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}

    def has(self, path: str) -> bool:
        """Whether a file is there and counts."""
        return path in self.state.files

    def verify(self, screen: Screen) -> None:
        """Forgets what is not on disk as it was written, so that it is fetched again."""
        bad = list[str]()
        for at, (path, told) in enumerate(self.state.files.items()):
            screen.show(f"Verifying {at + 1} of {len(self.state.files)} files.")
            file, part = self.root / path, self.root / f"{path}.part"
            if is_as_told(file, told):
                continue
            if is_as_told(part, told):
                part.replace(file)  # interrupted between the journal's line and the file's name
            else:
                bad.append(path)
        if not bad:
            return
        screen.say(f"{len(bad)} files are not what was written (the first: {bad[0]}); they are fetched again.")
        # The file of an eval or a run comes with its list; the list of a run's eval is among those of all runs.
        stale = {"evals"} if any(path.startswith("evals/") for path in bad) else set[str]()
        for run, about in self.state.runs.items():
            stale |= {f"runs of {about['eval']}"} if f"runs/{safe(run)}.json" in bad else set[str]()
            stale |= {f"items of {run}"} if f"items/{safe(run)}.jsonl" in bad else set[str]()
        self.note(drop=bad, lists={name: {} for name in stale})


class Export:
    """One pass over everything."""

    def __init__(self, service: Service, folder: Folder, screen: Screen, page_size: int) -> None:
        self._service, self._folder, self._screen, self._page_size = service, folder, screen, page_size
        self._state = folder.state
        self._not_found = dict[str, str]()
        """What answered 404 or 410 since the service was last known to be open."""
        self.failed = dict[str, str]()

    def run(self) -> None:
        """Fetches all that lacks."""
        try:
            self._fetch_evals()
        except Closed:
            # Files are of another API, which may stay.
            self._not_found.clear()
            self._fetch_files()
            raise
        self._fetch_files()
        for path, name in lacking(self._state).items():
            self.failed.setdefault(name, f"{path} lacks")
        self._folder.note(is_ended=not self.failed)

    def _fetch_evals(self) -> None:
        """All evals with their runs and output items."""
        # What is here stays as it is until the service answers: it may have closed meanwhile.
        if self._state.is_ended or self._state.lists.get("evals", {}).get("is_done"):
            self._require_open()
        if self._state.is_ended:
            lists = {name: dict[str, Any]() for name in self._state.lists if not name.startswith("items of ")}
            self._folder.note(is_ended=False, lists=lists)
        try:
            self._read_list("evals", self._service.client.evals.with_raw_response.list, self._keep_evals)
        except (Gone, Refused) as error:
            raise Closed(f"The service has no evals for this key. {error}") from None
        except Unanswered as error:
            raise Stop(1, f"The service does not answer. {error}") from None
        if not self.evals():
            raise Closed(NO_EVALS)
        for at, eval_id in enumerate(self.evals()):
            self._screen.show(f"{self.counts()} Eval {at + 1} of {len(self.evals())}.")
            self._fetch_eval(eval_id)

    def _require_open(self) -> None:
        """Once all evals were listed: Closed where none of them is any more, for then a 404 says nothing about the one
        thing asked for. The oldest one listed is known, unless another key, or another server, lists others."""
        try:
            page = self._service.page("evals", self._service.client.evals.with_raw_response.list, None, 1)
        except (Gone, Refused) as error:
            raise Closed(f"The service has closed, or has no evals for this key any more. {error}") from None
        except Unanswered as error:
            raise Stop(1, f"The service does not answer. {error}") from None
        if not page.elements:
            raise Closed(NO_EVALS)
        if page.elements[0].id not in self.evals():
            raise Closed(OTHER_EVALS)

    def _note_gone(self) -> None:
        """Notes what was not found as deleted, once the service is known to be open still."""
        if not self._not_found:
            return
        self._require_open()
        for what in self._not_found:
            self._keep_what_came(what)
        self._folder.note(gone=self._not_found)
        self._not_found.clear()

    def evals(self) -> list[str]:
        """Ids of the evals known."""
        return known_evals(self._state)

    def counts(self) -> str:
        """How much is here, in words."""
        counts = count(self._state)
        return ", ".join(f"{counts[name]:,} {name.replace('_', ' ')}" for name in counts if name != "bytes") + "."

    def _fetch_eval(self, eval_id: str) -> None:
        runs = self._service.client.evals.runs

        def ask_runs(**query: Any) -> Any:
            return runs.with_raw_response.list(eval_id, **query)

        def keep_runs(page: Page, cursor: dict[str, Any], name: str) -> None:
            self._keep_runs(eval_id, page, cursor, name)

        with self._attributed(eval_id):
            self._read_list(f"runs of {eval_id}", ask_runs, keep_runs)
        for run_id in [run for run, about in self._state.runs.items() if about["eval"] == eval_id]:
            with self._attributed(run_id):
                self._fetch_items(eval_id, run_id)
        self._note_gone()

    @contextlib.contextmanager
    def _attributed(self, what: str, *, is_refusal_final: bool = False) -> Generator[None, None, None]:
        """Notes how fetching it ended; the rest goes on."""
        try:
            yield
        except Gone as error:
            self._not_found[what] = str(error)
        except (Refused, Unanswered) as error:
            if is_refusal_final and isinstance(error, Refused):
                self._folder.note(refused={what: str(error)})
            else:
                self.failed[what] = str(error)
        else:
            if what in self._state.gone or what in self._state.refused:
                self._folder.note(got=[what])

    def _read_list(
        self, name: str, ask_list: Callable[..., Any], keep: Callable[[Page, dict[str, Any], str], None]
    ) -> None:
        """Reads a list from where it was left to its end, page by page."""
        restarts = 0
        while not self._state.lists.get(name, {}).get("is_done"):
            after = self._state.lists.get(name, {}).get("after")
            try:
                page = self._service.page(name, ask_list, after, self._page_size)
            except (Gone, Refused):
                restarts += 1
                if after is None or restarts > 3:
                    raise
                # The object that the cursor names may be deleted; what is on disk stays until the list has answered.
                page, after = self._service.page(name, ask_list, None, self._page_size), None
                self._folder.note(lists={name: {}})
            last = page.elements[-1].id if page.elements else after
            if page.has_more and last == after:
                raise Refused(f"{name}: the page behind {after} ends with {after}")
            keep(page, {"after": last, "is_done": not page.has_more}, name)
            self._screen.show(f"{self.counts()} {name}")

    def _keep_evals(self, page: Page, cursor: dict[str, Any], name: str) -> None:
        files, lists = dict[str, Any](), {name: cursor}
        for element in page.elements:
            path = f"evals/{safe(element.id)}.json"
            files[path] = self._folder.write(path, element.raw)
            lists[f"eval {element.id}"] = {}
        self._folder.note(files=files, lists=lists, named=names_in(page.elements))

    def _keep_runs(self, eval_id: str, page: Page, cursor: dict[str, Any], name: str) -> None:
        files, runs, lists = dict[str, Any](), dict[str, Any](), {name: cursor}
        for element in page.elements:
            path = f"runs/{safe(element.id)}.json"
            files[path] = self._folder.write(path, element.raw)
            is_now = [element.says.get("status"), element.says.get("result_counts")]
            known = self._state.runs.get(element.id)
            runs[element.id] = {"eval": eval_id, "is": is_now}
            if known and (known["is"] != is_now or is_now[0] not in FINAL):
                lists[f"items of {element.id}"] = {}
        self._folder.note(files=files, runs=runs, lists=lists, named=names_in(page.elements))

    def _fetch_items(self, eval_id: str, run_id: str) -> None:
        name, path = f"items of {run_id}", f"items/{safe(run_id)}.jsonl"
        part = self._folder.root / f"{path}.part"
        items = self._service.client.evals.runs.output_items

        def ask_items(**query: Any) -> Any:
            return items.with_raw_response.list(run_id, eval_id=eval_id, **query)

        def keep_items(page: Page, cursor: dict[str, Any], name: str) -> None:
            at = self._state.lists.get(name, {})
            with part.open("r+b" if part.exists() else "w+b") as out:
                if out.seek(0, os.SEEK_END) < at.get("offset", 0):
                    raise OSError(f"{part} is shorter than it was")
                out.truncate(at.get("offset", 0))
                out.seek(0, os.SEEK_END)
                out.writelines(element.raw + b"\n" for element in page.elements)
                out.flush()
                os.fsync(out.fileno())
                cursor |= {"offset": out.tell(), "lines": at.get("lines", 0) + len(page.elements)}
            files = {path: hash_of(part) | {"lines": cursor["lines"]}} if cursor["is_done"] else {}
            self._folder.note(lists={name: cursor}, files=files, named=names_in(page.elements))

        at = self._state.lists.get(name, {})
        if not at.get("is_done") and (not part.exists() or part.stat().st_size < at.get("offset", 0)):
            self._folder.note(lists={name: {}})
        self._read_list(name, ask_items, keep_items)
        if part.exists():
            part.replace(self._folder.root / path)

    def _keep_what_came(self, run_id: str) -> None:
        """The items of a run that was deleted half-way."""
        path = f"items/{safe(run_id)}.jsonl"
        at, part = self._state.lists.get(f"items of {run_id}", {}), self._folder.root / f"{path}.part"
        if at.get("lines") and not self._folder.has(path):
            os.truncate(part, at["offset"])
            self._folder.note(files={path: hash_of(part) | {"lines": at["lines"], "is_cut": True}})
            part.replace(self._folder.root / path)

    def _fetch_files(self) -> None:
        paths = {name: f"files/{safe(name)}" for name in self._state.named}
        wanted = [name for name, path in paths.items() if not all(map(self._folder.has, (path, f"{path}.json")))]
        for at, file_id in enumerate(wanted):
            self._screen.show(f"{self.counts()} File {at + 1} of {len(wanted)}.")
            with self._attributed(file_id, is_refusal_final=True):
                self._fetch_file(file_id)
        self._note_gone()

    def _fetch_file(self, file_id: str) -> None:
        path = f"files/{safe(file_id)}"
        part = self._folder.root / f"{path}.part"
        about = self._service.ask(
            file_id, lambda: self._service.client.files.with_raw_response.retrieve(file_id).content
        )
        self._folder.note(files={f"{path}.json": self._folder.write(f"{path}.json", about)})
        size = json.loads(about).get("bytes")
        self._service.content(file_id, part, size if isinstance(size, int) else None)
        self._folder.note(files={path: hash_of(part)}, got=[file_id])
        part.replace(self._folder.root / path)


def known_evals(state: State) -> list[str]:
    """Ids of the evals that were listed."""
    return [name.removeprefix("eval ") for name in state.lists if name.startswith("eval ")]


def names_in(elements: Iterable[Element]) -> list[str]:
    """The files that the objects of a page name."""
    return list(dict.fromkeys(name for element in elements for name in named_files(element.says)))


def expected(state: State) -> dict[str, str]:
    """By path that an export is to have: the id of what it belongs to."""
    paths = {f"evals/{safe(eval_id)}.json": eval_id for eval_id in known_evals(state)}
    paths |= {f"runs/{safe(run)}.json": run for run in state.runs}
    paths |= {f"items/{safe(run)}.jsonl": run for run in state.runs}
    files = {f"files/{safe(name)}": name for name in state.named if name not in state.refused}
    return paths | files | {f"{path}.json": name for path, name in files.items()}


def lacking(state: State) -> dict[str, str]:
    """What of it is not on disk, and was not deleted there either."""
    return {
        path: name
        for path, name in expected(state).items()
        if path not in state.files and not {name, state.runs.get(name, {}).get("eval")} & state.gone.keys()
    }


def count(state: State) -> dict[str, int]:
    """What is on disk."""
    return {
        "evals": len([path for path in state.files if path.startswith("evals/")]),
        "runs": len([path for path in state.files if path.startswith("runs/")]),
        "output_items": sum(told.get("lines", 0) for told in state.files.values()),
        "files": len([path for path in state.files if path.startswith("files/") and not path.endswith(".json")]),
        "bytes": sum(told["bytes"] for told in state.files.values()),
    }


def manifest(state: State, base_url: str, failed: dict[str, str]) -> dict[str, Any]:
    """What the folder holds. Nothing in it depends on when or how often the export was started."""
    return {
        "format": "evals-export/1",
        "base_url": base_url,
        "is_complete": state.is_ended and not failed and not lacking(state),
        "counts": count(state),
        "evals": {
            eval_id: sorted(run for run, about in state.runs.items() if about["eval"] == eval_id)
            for eval_id in known_evals(state)
        },
        "gone": state.gone,
        "refused": state.refused,
        "failed": failed,
        "files": state.files,
    }


def summary(folder: Folder, export: Export) -> list[str]:
    """How it ended, in words."""
    state = folder.state
    lines = [f"In {folder.root}: {export.counts()}"]
    unfinished = [run for run, about in state.runs.items() if about["is"][0] not in FINAL]
    if unfinished:
        lines.append(f"{len(unfinished)} runs were not finished when they were read (the first: {unfinished[0]}).")
    for kind, things in (
        ("were deleted while or before they were read; what came of them is kept", state.gone),
        ("are files that the service hands out to nobody", state.refused),
        ("could not be fetched this time", export.failed),
    ):
        if things:
            lines.append(f"{len(things)} {kind}. The first: {next(iter(things.values()))}")
    return lines


def arguments() -> argparse.Namespace:
    """The command line; the key is not on it, where other users of the machine could read it."""
    parser = argparse.ArgumentParser(description="Take evals out of the hosted Evals service, verbatim and resumably.")
    parser.add_argument("folder", type=Path, help="where to; the same folder again goes on where the last start ended")
    parser.add_argument("--base-url", help=f"of the API (default: {HOSTED_URL})")
    parser.add_argument("--page-size", type=int, default=100, help="objects per request, 1 to 100 (default 100)")
    parser.add_argument("--timeout", type=float, default=120.0, help="seconds for one request (default 120)")
    chosen = parser.parse_args()
    if not 1 <= chosen.page_size <= 100:
        parser.error("--page-size is 1 to 100")
    if chosen.base_url is None:
        chosen.base_url = hosted_url(parser)
    return chosen


def hosted_url(parser: argparse.ArgumentParser) -> str:
    """Where the hosted service is; wrong usage where the environment sends the SDK to another server.

    An export of that one would look like the right one until the hosted service is gone, and the key may be its own.
    """
    url = os.environ.get("OPENAI_BASE_URL", "").strip() or HOSTED_URL
    host = urlsplit(url).hostname or ""
    if host != "api.openai.com" and not host.endswith(".api.openai.com"):
        parser.error(
            f"OPENAI_BASE_URL names {host or url}, which is not the hosted service: unset it,"
            f" or say what to export from with --base-url (the hosted service: {HOSTED_URL})"
        )
    return url


def main() -> int:
    """Exports and says how it went; the exit code."""
    chosen = arguments()
    key = os.environ.get("OPENAI_API_KEY", "").strip()
    if not key:
        print("Set OPENAI_API_KEY to a key of the project whose evals you want.", file=sys.stderr)
        return 2
    screen = Screen(key)
    try:
        screen.say(f"Exporting from {chosen.base_url}")
        folder = Folder(chosen.folder)
        client = openai.OpenAI(api_key=key, base_url=chosen.base_url, max_retries=0, timeout=chosen.timeout)
        export = Export(Service(client, screen), folder, screen, chosen.page_size)
        code, message = 0, "Done."
        try:
            folder.verify(screen)
            export.run()
        except Stop as stop:
            code, message = stop.code, str(stop)
        except KeyboardInterrupt:
            code, message = 130, "Interrupted. Run it again to go on."
        document = manifest(folder.state, str(client.base_url), export.failed)
        if code != 0 and document["is_complete"]:
            message += " What was exported before is complete and stays so."
        folder.write("manifest.json", json.dumps(document, indent=1, sort_keys=True).encode() + b"\n")
    except Stop as stop:
        screen.say(str(stop))
        return stop.code
    except OSError as error:
        screen.say(f"The folder cannot be written: {error}. What is in it stays; run it again to go on.")
        return 1
    for line in summary(folder, export):
        screen.say(line)
    if code == 0 and export.failed:
        code, message = 1, "Something lacks. Run it again."
    elif code == 0 and folder.state.refused:
        code, message = 4, "Done but for the files that the service refuses."
    screen.say(message)
    return code


if __name__ == "__main__":
    sys.exit(main())
