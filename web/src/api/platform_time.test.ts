import { afterEach, expect, test, vi } from "vitest";
import { hear, learnTime, MOST_SILENT_MS, platformNow } from "./platform_time";

afterEach(() => void vi.useRealTimers());

const told = (ahead: number) => learnTime(new Date(Date.now() + ahead * 1000).toUTCString());
const isAheadBy = (seconds: number) => expect(Math.abs(platformNow() - Date.now() / 1000 - seconds)).toBeLessThan(2);

test("a clock that is minutes off is set right by the platform's replies, and one that is right stays", () => {
  told(-1);
  learnTime(null);
  learnTime("yesterday");
  isAheadBy(0);
  told(-300);
  isAheadBy(-300);
  told(-303);
  isAheadBy(-300);
  told(0);
  isAheadBy(0);
});

test("time that nothing was heard of is not known to have passed", () => {
  vi.useFakeTimers({ toFake: ["Date"], now: Date.now() });
  told(0);
  const heard = platformNow();
  vi.setSystemTime(Date.now() + 8 * 3_600_000);
  expect(platformNow() - heard).toBe(MOST_SILENT_MS / 1000);
  hear();
  expect(platformNow() - heard).toBe(8 * 3600);
});
