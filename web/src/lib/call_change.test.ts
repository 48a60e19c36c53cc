import { expect, it } from "vitest";
import { madeAgain, pairName } from "./call_change";

it("tells how often calls were made again", () => {
  const counts = { rollouts: 30, calls: 340, repeated: 12, repeating_rollouts: 8 };
  expect(madeAgain(4, counts)).toBe("12 of 340 calls at step 4 (3.5 %), in 8 of 30 rollouts");
  expect(madeAgain(4, { ...counts, calls: 0, repeated: 0 })).toBe("no call at step 4");
});

it("tells the same call from another one of its tool", () => {
  expect(pairName({ first: "cat", second: "cat", is_same: true })).toBe("cat, the same once more");
  expect(pairName({ first: "cat", second: "cat", is_same: false })).toBe("cat → cat");
});
