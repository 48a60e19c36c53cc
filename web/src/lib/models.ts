/** Models in their order: base models, and what each job made of one. */
import type { BaseModel, Model } from "../api/types";

export interface ModelsOfJob {
  jobId: string;
  trainedFrom: string;
  /** The final model first, then its checkpoints from the last step down. */
  models: Model[];
}

export function baseModels(models: readonly Model[]): Model[] {
  return models.filter((model) => !model.fine_tuning_job_id);
}

/** By job, in the order that the jobs came in. */
export function byJob(models: readonly Model[]): ModelsOfJob[] {
  const jobs = new Map<string, ModelsOfJob>();
  for (const model of models) {
    const jobId = model.fine_tuning_job_id;
    if (!jobId) continue;
    const known = jobs.get(jobId) ?? { jobId, trainedFrom: model.trained_from ?? "", models: [] };
    known.models.push(model);
    jobs.set(jobId, known);
  }
  return [...jobs.values()].map((job) => ({
    ...job,
    models: job.models.toSorted(
      (one, other) =>
        Number(isCheckpoint(one)) - Number(isCheckpoint(other)) || (other.step_number ?? 0) - (one.step_number ?? 0),
    ),
  }));
}

export function isCheckpoint(model: Model): boolean {
  return model.id.includes(":ckpt-step-");
}

/** The page on which one talks to it. */
export function chatPath(modelId: string): string {
  return `/models/chat?${new URLSearchParams({ model: modelId })}`;
}

/** How to ask it with the official SDK. The key stays with whoever copies it. */
export function sdkCode(modelId: string, origin: string): string {
  return `from openai import OpenAI

client = OpenAI(base_url="${origin}/v1", api_key="...")
reply = client.chat.completions.create(
    model="${modelId}",
    messages=[{"role": "user", "content": "..."}],
)
print(reply.choices[0].message.content)`;
}

export interface CheckLine {
  label: string;
  value: string;
}

/** What a look at a base model's files says, line by line. */
export function checkLines(base: BaseModel): CheckLine[] {
  const { memory, auto } = base;
  const lines: (CheckLine | false | null)[] = [
    { label: "Chat format", value: base.chat_format ?? "none" },
    { label: "Engines", value: base.engines.join(", ") || "none" },
    base.engine_problem !== null && { label: "Not in the engine transformers", value: base.engine_problem },
    { label: "Parallel calls", value: base.takes_parallel_calls ? "yes" : "no" },
    base.thinking_switch !== null && { label: "Thinking switch", value: base.thinking_switch },
    memory && { label: "Parameters", value: amount(memory.parameters) },
    memory && { label: "Weights", value: gigabytes(memory.weights_bytes) },
    memory?.training_bytes != null && { label: "Training takes", value: gigabytes(memory.training_bytes) },
    auto && { label: "Context", value: `${auto.max_context_tokens} tokens` },
    auto && { label: "LoRA", value: `rank ${auto.lora_rank}, ${auto.lora_layers.join(", ")}` },
  ];
  return lines.filter((line) => line !== false && line !== null);
}

function amount(value: number): string {
  if (value >= 1e9) return `${(value / 1e9).toFixed(1)} billion`;
  return value >= 1e6 ? `${(value / 1e6).toFixed(1)} million` : String(value);
}

function gigabytes(bytes: number): string {
  return bytes >= 1e9 ? `${(bytes / 1e9).toFixed(1)} GB` : `${(bytes / 1e6).toFixed(1)} MB`;
}
