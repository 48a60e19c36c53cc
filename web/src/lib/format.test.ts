import { describe, expect, test } from "vitest";
import {
  ago,
  compact,
  count,
  dateTime,
  daysOf,
  delta,
  duration,
  fileSize,
  fixed,
  middle,
  milliseconds,
  moment,
  percent,
  plural,
  reward,
  span,
} from "./format";

describe("numbers", () => {
  test("a missing value is a dash, zero is a value", () => {
    expect(reward(null)).toBe("–");
    expect(reward(Number.NaN)).toBe("–");
    expect(reward(0)).toBe("0.000");
  });

  test("minus is a real minus, and never before zero", () => {
    expect(fixed(-1.25, 1)).toBe("−1.3");
    expect(fixed(-0.0001, 3)).toBe("0.000");
  });

  test("bytes in the unit that fits", () => {
    expect([0, 999, 1000, 3_450_000, 512_000_000_000].map(fileSize)).toEqual([
      "0 B",
      "999 B",
      "1.0 kB",
      "3.5 MB",
      "512.0 GB",
    ]);
  });

  test("a short call in milliseconds", () => {
    expect([0, 0.0026, 0.41, 1.25].map(milliseconds)).toEqual(["1 ms", "3 ms", "410 ms", "1.25 s"]);
  });

  test("differences carry their sign", () => {
    expect(delta(0.25)).toBe("+0.250");
    expect(delta(-0.25)).toBe("−0.250");
    expect(delta(0.0001)).toBe("0.000");
    expect(delta(undefined)).toBe("–");
  });

  test.each([
    [0, "0 %"],
    [0.031, "3.1 %"],
    [0.5, "50 %"],
    [-0.46, "−46 %"],
    [0.996, "99.6 %"],
    [0.9996, "> 99.9 %"],
    [1, "100 %"],
    [0.0004, "< 0.1 %"],
    [Number.NaN, "–"],
  ])("share %f", (share, text) => expect(percent(share)).toBe(text));

  test("thousands are set apart", () => {
    expect(count(183_220)).toBe("183\u202f220");
    expect(compact(1234.5)).toBe("1\u202f235");
    expect(compact(12.34)).toBe("12.3");
    expect(compact(123.4)).toBe("123");
    expect(plural(1, "row")).toBe("1 row");
    expect(plural(2, "row")).toBe("2 rows");
  });
});

test.each([
  [0.041, "0.04 s"],
  [12.34, "12.3 s"],
  [59.97, "1 min 00 s"],
  [245, "4 min 05 s"],
  [7380, "2 h 03 min"],
  [3 * 86_400 + 4 * 3600, "3 d 4 h"],
])("%f seconds", (seconds, text) => expect(duration(seconds)).toBe(text));

test.each([
  [-5, "just now"],
  [59, "just now"],
  [125, "2 min ago"],
  [7300, "2 h ago"],
  [3 * 86_400, "3 days ago"],
])("%i seconds ago", (seconds, text) => expect(ago(1000, 1000 + seconds)).toBe(text));

test("a long name keeps both ends", () => {
  const text = middle("ft:starter:local:reports-v2:Zk81mQpa:ckpt-step-20", 24);
  expect(text).toHaveLength(24);
  expect(text.startsWith("ft:st")).toBe(true);
  expect(text.endsWith(":ckpt-step-20")).toBe(true);
  expect(middle("short", 24)).toBe("short");
});

test("what passes or comes is told without seconds' parts", () => {
  expect([span(0.4), span(59.7), span(130.2), span(-3)]).toEqual(["0 s", "1 min 00 s", "2 min 10 s", "0 s"]);
  const now = new Date(2026, 10, 21, 12, 0, 0).getTime() / 1000;
  expect(moment(now + 3725, now)).toBe("13:02");
  expect(moment(now + 86_400, now)).toBe(dateTime(now + 86_400).slice(0, 16));
});

test("a day is told where it changes", () => {
  const at = (day: number, hour: number) => new Date(2026, 10, day, hour).getTime() / 1000;
  expect(daysOf([at(21, 9), at(20, 23), at(20, 1), at(18, 5)], at(21, 10))).toEqual([
    null,
    "2026-11-20",
    null,
    "2026-11-18",
  ]);
  expect(daysOf([at(20, 23)], at(21, 10))).toEqual(["2026-11-20"]);
});
