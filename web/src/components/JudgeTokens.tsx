import type { TokenUsage } from "../api/types";
import { count } from "../lib/format";
import { Fact } from "./Fact";

/** What each judge model read and wrote. */
export function JudgeTokens({ usage }: { usage: Readonly<Record<string, TokenUsage>> }) {
  return Object.entries(usage).map(([model, tokens]) => (
    <Fact key={model} label={`Judge ${model}`}>
      {count(tokens.prompt_tokens)} tokens in
      {tokens.cached_tokens > 0 && ` (${count(tokens.cached_tokens)} cached)`}, {count(tokens.completion_tokens)} out
    </Fact>
  ));
}
