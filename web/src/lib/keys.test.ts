import { expect, test } from "vitest";
import { globalKey } from "./keys";

const plain = { ctrlKey: false, metaKey: false, altKey: false };

test("the search opens from everywhere, the list of keys not while somebody types", () => {
  expect(globalKey({ ...plain, key: "k", ctrlKey: true }, true)).toBe("search");
  expect(globalKey({ ...plain, key: "K", metaKey: true }, false)).toBe("search");
  expect(globalKey({ ...plain, key: "k" }, false)).toBeNull();
  expect(globalKey({ ...plain, key: "?" }, false)).toBe("keys");
  expect(globalKey({ ...plain, key: "?" }, true)).toBeNull();
});
