import { expect, test } from "vitest";
import { ExactNumber } from "../api/exact_json";
import { job } from "../testing/records";
import { settingRows } from "./settings_table";

const ordered = (id: string, reinforcement: object, more = {}) =>
  job({ id, method: { type: "reinforcement", reinforcement } as never, ...more });
const tool = (name: string, url: string) => ({ name, server_url: url });

test("fields that differ are told apart from those that are the same", () => {
  const rows = settingRows([
    ordered("ftjob-0001", {
      grader: { name: "grader-0001", type: "string_check", operation: "eq" },
      hyperparameters: { batch_size: 4 },
    }),
    ordered("ftjob-0002", {
      grader: { name: "grader-0002", type: "string_check", operation: "like" },
      hyperparameters: { batch_size: 8 },
    }),
  ]);
  expect(rows.filter((row) => !row.isSame)).toEqual([
    { path: "hyperparameters.batch_size", values: ["4", "8"], isSame: false },
    { path: "grader.operation", values: ["eq", "like"], isSame: false },
  ]);
  expect(rows.find((row) => row.path === "grader.type")).toMatchObject({ isSame: true });
});

test("tools go by their names, whatever their order, and one that a job lacks is null", () => {
  const rows = settingRows([
    ordered("a", { tools: [tool("search", "http://a"), tool("cat", "http://c")] }),
    ordered("b", { tools: [tool("cat", "http://c")] }),
  ]);
  const url = (name: string) => rows.find((row) => row.path === `tools.${name}.server_url`);
  expect(url("cat")).toMatchObject({ values: ["http://c", "http://c"], isSame: true });
  expect(url("search")).toMatchObject({ values: ["http://a", null], isSame: false });
});

test("seeds that differ in their last digit only are different ones", () => {
  const seeded = (digits: string) => ordered(digits, {}, { seed: new ExactNumber(digits) });
  const rows = settingRows([seeded("9007199254740992"), seeded("9007199254740993")]);
  expect(rows.find((row) => row.path === "seed")).toEqual({
    path: "seed",
    values: ["9007199254740992", "9007199254740993"],
    isSame: false,
  });
});

test("what became of auto counts, and not that it was left open", () => {
  const resolved = { resolved_hyperparameters: { batch_size: 16, epsilon: null } as never };
  const rows = settingRows([
    ordered("a", { hyperparameters: { batch_size: "auto", epsilon: "auto" } }, resolved),
    ordered("b", { hyperparameters: { batch_size: 16, epsilon: 0.2 } }),
  ]);
  expect(rows.find((row) => row.path === "hyperparameters.batch_size")?.isSame).toBe(true);
  expect(rows.find((row) => row.path === "hyperparameters.epsilon")?.values).toEqual(["auto", "0.2"]);
});
