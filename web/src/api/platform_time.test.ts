import { expect, test } from "vitest";
import { learnTime, platformNow } from "./platform_time";

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
