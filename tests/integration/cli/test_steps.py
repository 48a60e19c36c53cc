"""`rft jobs steps` and `rft jobs curves`."""

from rft.core.events import RunStarted
from rft.platform.cli.chart import DOT
from tests.integration.cli.conftest import Run, Shell
from tests.shared.train_events import whole_run


async def test_steps_are_told_oldest_first_and_page_by_page(shell: Shell, run: Run) -> None:
    await run.tell(*whole_run(run.job_id, steps=3))
    first = await shell.ok("jobs", "steps", run.job_id, "--limit", 2)
    rows = [line.split() for line in first.out.splitlines()[2:]]
    assert [row[:3] for row in rows] == [["0", "-", "0.600"], ["1", "0.410", "0.610"]]
    assert "25.0%" in rows[1]
    assert "--after 1" in first.err
    rest = await shell.ok("jobs", "steps", run.job_id, "--after", 1)
    assert [line.split()[0] for line in rest.out.splitlines()[2:]] == ["2", "3"]
    assert rest.err == ""


async def test_json_gives_the_steps_as_the_api_has_them(shell: Shell, run: Run) -> None:
    await run.tell(*whole_run(run.job_id, steps=2))
    steps = (await shell.ok("jobs", "steps", run.job_id, "--json")).json
    assert [step["step"] for step in steps] == [0, 1, 2]
    assert {step["object"] for step in steps} == {"fine_tuning.job.step"}


async def test_the_curve_is_drawn_with_its_sums(shell: Shell, run: Run) -> None:
    await run.tell(*whole_run(run.job_id, steps=3))
    shown = (await shell.ok("jobs", "curves", run.job_id)).out
    assert DOT in shown
    assert "0.410 -> 0.430, best 0.430 at step 3" in shown
    assert max(map(len, shown.splitlines())) <= 120
    window = (await shell.ok("jobs", "curves", run.job_id, "--from-step", 2, "--to-step", 2)).out
    assert "0.420 -> 0.420" in window
    raw = (await shell.ok("jobs", "curves", run.job_id, "--json")).json
    assert (raw["object"], raw["steps"], len(raw["data"])) == ("fine_tuning.job.curves", 4, 4)


async def test_a_job_without_a_step_has_none_to_tell(shell: Shell, run: Run) -> None:
    await run.tell(RunStarted(resumed_from_step=None, total_steps=3, pid=1))
    assert (await shell.ok("jobs", "steps", run.job_id)).err == "no steps\n"
    assert "no rewards yet" in (await shell.ok("jobs", "curves", run.job_id)).out


async def test_figures_that_make_no_sense_are_refused_in_one_line(shell: Shell, run: Run) -> None:
    lost = await shell.rft("jobs", "steps", run.job_id, "--after", "nowhere")
    assert (lost.status, lost.err.count("\n"), "param: after" in lost.err) == (1, 1, True)
    assert (await shell.rft("jobs", "curves", run.job_id, "--points", 2)).status == 2
