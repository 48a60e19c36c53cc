"""A trace of ten thousand calls and a line of a megabyte: how soon it can be read, and how soon a search answers."""

from playwright.async_api import BrowserContext
from psycopg import AsyncConnection

from rft.platform.lifecycle.lease import Lease
from rft.platform.lifecycle.repository import JOBS as JOBS_TABLE
from rft.platform.worker.ingest import Ingest
from rft.platform.worker.log_line import read_line
from tests.bench.api_data import GRADERS, LEASE_TOKEN, OWNER
from tests.bench.api_writes import Run, go_on
from tests.shared.hostile_trace import hostile
from tests.shared.train_events import began, rollout_done, step_done

CALLS = 10_000
ROUNDS = 3
SEARCHED = ("call 1234 <img", "reply to call_9876", "gnp.exe")
"""In arguments, in an answer, in the long line: each in one place."""
_TYPED_UNTIL_FOUND = """
async (text) => {
  const box = document.querySelector(".trace-search input");
  const type = (value) => {
    Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, "value").set.call(box, value);
    box.dispatchEvent(new Event("input", { bubbles: true }));
  };
  const says = (words) => new Promise((resolve) => {
    const look = () => {
      const said = document.querySelector(".trace-search [role=status]").textContent;
      if (said !== words) return requestAnimationFrame(look);
      requestAnimationFrame(() => setTimeout(resolve, 0));
    };
    look();
  });
  type("");
  await says("");
  const began = performance.now();
  type(text);
  await says("in 1 place");
  return performance.now() - began;
}
"""


async def stored_hostile_trace(run: Run) -> str:
    """The id of one that the running job ends now."""
    await go_on(run)
    run.step += 1
    lease = Lease(JOBS_TABLE, run.stored.large_job, LEASE_TOKEN, OWNER)
    done = hostile(rollout_done(lease.id, run.step, 0), calls=CALLS)
    lines = run.lines(began(done), done, step_done(run.step, run.step + 1000))
    logged = [read_line(line.model_dump_json().encode() + b"\n") for line in lines]
    async with await AsyncConnection.connect(run.stored.database_url) as connection:
        await Ingest(lease, GRADERS, "ft:tiny:local:bench:x").batch(connection, logged)
    return done.trace_id


async def searches_ms(context: BrowserContext, url: str) -> list[float]:
    """From the text in the box to what was found, drawn; the first round only warms up."""
    page = await context.new_page()
    await page.goto(url)
    await page.locator(".call").first.wait_for()
    times_ms = [await page.evaluate(_TYPED_UNTIL_FOUND, text) for _ in range(ROUNDS + 1) for text in SEARCHED]
    await page.close()
    return times_ms[len(SEARCHED) :]
