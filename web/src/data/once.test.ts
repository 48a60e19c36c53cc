import { MutationObserver, QueryClient } from "@tanstack/react-query";
import { expect, test, vi } from "vitest";
import { forgetOutcome } from "./once";

test("an order under way is not forgotten when its form changes: its reply still comes", async () => {
  let reply: (made: string) => void = () => {};
  const replied = new Promise<string>((resolve) => (reply = resolve));
  const order = new MutationObserver(new QueryClient(), { mutationFn: () => replied });
  const stop = order.subscribe(() => {});
  const onSuccess = vi.fn<(made: string) => void>();
  const sent = order.mutate(undefined, { onSuccess: (made) => onSuccess(made) });
  forgetOutcome(order.getCurrentResult());
  expect(order.getCurrentResult().isPending).toBe(true);
  reply("job-1");
  await sent;
  expect(onSuccess).toHaveBeenCalledWith("job-1");
  forgetOutcome(order.getCurrentResult());
  expect(order.getCurrentResult().isIdle).toBe(true);
  stop();
});
