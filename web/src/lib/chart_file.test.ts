import { expect, test } from "vitest";
import { chartFileName, csvOf, csvTable } from "./chart_file";
import { line } from "./series";

test("values stand by their step, intervals beside them, and what was not measured is empty", () => {
  const valid = { ...line("v", "Validation", "--c", [0.5, null]), interval: { low: [0.4, null], high: [0.6, null] } };
  const chart = { steps: [0, 10], series: [line("t", "Train", "--c", [null, 0.25]), valid], isStacked: false };
  expect(csvOf(chart)).toBe("step,Train,Validation,Validation low,Validation high\r\n0,,0.5,0.4,0.6\r\n10,0.25,,,\r\n");
});

test("over another axis the place on it stands beside the step", () => {
  const chart = { steps: [12, 40], axis: { unit: "rollouts", steps: [0, 2] }, isStacked: false };
  expect(csvOf({ ...chart, series: [line("t", "Train", "--c", [0.5, 0.75])] })).toBe(
    "step,rollouts,Train\r\n0,12,0.5\r\n2,40,0.75\r\n",
  );
});

test("names of tools cannot break the table or become formulas", () => {
  const chart = { steps: [1], series: [line("a", '=HYPERLINK("x"),y', "--c", [2])], isStacked: false };
  expect(csvOf(chart)).toBe(`step,"'=HYPERLINK(""x""),y"\r\n1,2\r\n`);
});

test("files are named after the job and the chart", () => {
  expect(chartFileName("ftjob-1", "Step time", "png")).toBe("ftjob-1-step-time.png");
});

test("rows stand under their names", () => {
  expect(
    csvTable(
      ["row", "a,b"],
      [
        [1, null],
        [2, 0.5],
      ],
    ),
  ).toBe('row,"a,b"\r\n1,\r\n2,0.5\r\n');
});
