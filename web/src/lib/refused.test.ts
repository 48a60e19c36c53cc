import { expect, test, vi } from "vitest";
import { refusedOf } from "./refused";

test("a refusal that is closed leaves what another action told", () => {
  const create = { error: null, reset: vi.fn<() => void>() };
  const revoke = { error: new Error("It is the last one."), reset: vi.fn<() => void>() };
  const { error, onClose } = refusedOf(create, revoke);
  expect(error?.message).toBe("It is the last one.");
  onClose();
  expect(revoke.reset).toHaveBeenCalledOnce();
  expect(create.reset).not.toHaveBeenCalled();
  expect(refusedOf(create).error).toBeNull();
});
