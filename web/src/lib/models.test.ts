import { expect, test } from "vitest";
import type { BaseModel, Model } from "../api/types";
import { baseModels, byJob, checkLines, sdkCode } from "./models";

const made = (id: string, job: string | null, step: number | null = null) =>
  ({ id, fine_tuning_job_id: job, trained_from: job && "tiny", step_number: step }) as Model;

test("each job's final model stands before its checkpoints, the last step first", () => {
  const models = [made("tiny", null), made("ft:b:ckpt-step-2", "b", 2), made("ft:a:ckpt-step-4", "a", 4)];
  models.push(made("ft:a:ckpt-step-10", "a", 10), made("ft:a", "a", 4));
  expect(baseModels(models).map((model) => model.id)).toEqual(["tiny"]);
  expect(byJob(models).map((job) => [job.jobId, job.models.map((model) => model.id)])).toEqual([
    ["b", ["ft:b:ckpt-step-2"]],
    ["a", ["ft:a", "ft:a:ckpt-step-10", "ft:a:ckpt-step-4"]],
  ]);
});

test("the code to copy names the model and this platform, and no key", () => {
  const code = sdkCode("ft:a", "http://here:8000");
  expect(code).toContain('model="ft:a"');
  expect(code).toContain('base_url="http://here:8000/v1", api_key="..."');
});

test("a check tells what is known and nothing of what is not", () => {
  const base = {
    chat_format: "qwen",
    engines: ["transformers", "vllm"],
    engine_problem: null,
    takes_parallel_calls: true,
    thinking_switch: null,
    memory: { parameters: 1_540_000_000, weights_bytes: 6_200_000_000, training_bytes: null },
    auto: null,
  } as unknown as BaseModel;
  expect(checkLines(base)).toEqual([
    { label: "Chat format", value: "qwen" },
    { label: "Engines", value: "transformers, vllm" },
    { label: "Parallel calls", value: "yes" },
    { label: "Parameters", value: "1.5 billion" },
    { label: "Weights", value: "6.2 GB" },
  ]);
});
