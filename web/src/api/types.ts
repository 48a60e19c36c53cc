/** Names for the generated types; the only file that reads `schema.d.ts`. */
import type { components } from "./schema";

type Schemas = components["schemas"];

export type Job = Schemas["JobObject"];
/** Another model, measured on the job's validation rows. */
export type Baseline = Schemas["BaselineFigures"];
export type JobEvent = Schemas["EventObject"];
export type Checkpoint = Schemas["CheckpointObject"];
/** What is drawn of a step. */
export type Step = Schemas["CurvePoint"];
export type StepRecord = Schemas["StepCurves"];
export type RolloutStats = Schemas["SplitCurves"];
export type Curves = Schemas["CurvesObject"];
export type JobCurvesObject = Schemas["JobCurvesObject"];
export type RolloutSummary = Schemas["RolloutSummary"];
export type RolloutDetail = Schemas["RolloutDetail"];
/** A rollout whose end was told. */
export type EndedRollout = RolloutDetail & { record: NonNullable<RolloutDetail["record"]> };
export type Grading = Schemas["GradingObject"];
export type Token = Schemas["TokenObject"];
/** Some of a rollout's tokens, and what holds for all of them. */
export type TokenPage = Schemas["TokenPage"];
export type RolloutRecord = Schemas["RolloutDone"];
export type Grade = Schemas["Grade"];
export type Failure = Schemas["Failure"];
export type Message = Schemas["Message"];
export type ToolCall = Schemas["ToolCall"];
export type TokenUsage = Schemas["TokenUsage"];
export type Usage = Schemas["UsageMetrics"];
export type Attempt = Schemas["AttemptObject"];
export type EndpointHealth = Schemas["EndpointHealth"];
export type SessionState = Schemas["SessionObject"];
export type SignIn = Schemas["SignIn"];
export type FailureCode = Schemas["FailureCode"];

export type StoredFile = Schemas["FileObject"];
/** A line of a file that is no row. */
export type FileProblem = Schemas["ProblemObject"];
/** Who was ordered with a file. */
export type FileUse = Schemas["FileUseObject"];
/** What a file is for. */
export type Purpose = "fine-tune" | "evals";

export type Eval = Schemas["EvalObject"];
export type ListedEval = Schemas["ListedEval"];
export type LatestRun = Schemas["LatestRunObject"];
export type EvalRun = Schemas["EvalRunObject"];
export type RunFigures = NonNullable<EvalRun["figures"]>;
export type RewardEstimate = Schemas["RewardEstimate"];
export type RewardDifference = Schemas["RewardDifference"];
export type OutputItem = Schemas["OutputItemObject"];
export type ItemStatus = OutputItem["status"];
export type RunComparison = Schemas["ComparisonObject"];
export type CriterionComparison = Schemas["CriterionComparison"];
export type ComparedRow = Schemas["ComparedRowObject"];
export type Change = ComparedRow["change"];
export type RowSpread = Schemas["RowSpread"];
export type Variance = Omit<Schemas["VarianceObject"], "object" | "run_id" | "criterion">;
export type JobVariance = Schemas["JobVarianceObject"];
/** A base model, a fine-tuned one or a checkpoint. */
export type Model = Schemas["ModelObject"];
export type BaseModel = Schemas["BaseModelObject"];
export type PlaygroundResult = Schemas["PlaygroundObject"];
export type ApiKey = Schemas["KeyObject"];
export type NewApiKey = Schemas["NewKeyObject"];
export type Provider = Schemas["ProviderObject"];
export type SigningSecret = Schemas["SigningSecretObject"];
export type NewSigningSecret = Schemas["NewSigningSecret"];
export type RegisteredTool = Schemas["ToolObject"];
export type RegisteredGrader = Schemas["GraderObject"];
/** What an order comes to. */
export type Estimate = Schemas["EstimateObject"];
export type EndpointEstimate = Schemas["EndpointEstimate"];
export type ToolReply = Schemas["ToolRunObject"] | Schemas["ToolTested"];
export type GraderReply = Schemas["GraderRunObject"];
/** A customer's endpoint with every job that calls it. */
export type EndpointOfJobs = Schemas["EndpointOfJobs"];
export type JobCalls = Schemas["JobCalls"];
export type CustomerEndpoints = Schemas["CustomerEndpoints"];
/** A call that went wrong, with request and reply. */
export type FailedCall = Schemas["FailedCallObject"];
/** What an endpoint is given to bear now. */
export type EndpointLoad = Schemas["Load"];
/** The burst of a step, played without a model. */
export type Rehearsal = Schemas["RehearsalObject"];

export type Split = Schemas["Split"];
/** Splits that a step has figures of. */
export type MeasuredSplit = "train" | "valid";
export type EventType = JobEvent["type"];
export type Outcome = "graded" | "failed";
/** What can be asked of a job that is not over. */
export type Action = "pause" | "resume" | "cancel";

export type JobStatus = Job["status"];
export type JobSort = "created" | "reward" | "gain" | "burst" | "duration";

export interface JobQuery {
  /** Words in its id, name, model and metadata; empty: any job. */
  search: string;
  /** One of these; none: any. */
  statuses: readonly JobStatus[];
  sort: JobSort;
  order: "asc" | "desc";
}

export interface CurvesQuery {
  points: number;
  from_step?: number;
  to_step?: number;
}

/** What concerns whoever looks at any page. */
export type Condition = Schemas["ConditionObject"];
/** The judge's server, and what graders ask of it. */
export type Judges = Schemas["JudgeList"];
export type Judge = Schemas["JudgeObject"];
export type JudgeUse = Schemas["JudgeUse"];

export type StopReason = Schemas["StopReason"];
/** Which calls two policies make again, and which follow which. */
export type CallChange = Schemas["CallChangeObject"];
export type CallCounts = Schemas["CallCounts"];
export type CallPair = Schemas["CallPair"];
export type PolicyChange = Schemas["PolicyChangeObject"];
export type RowChange = Schemas["RowChange"];
export type DiagnosticPoint = Schemas["DiagnosticPoint"];
export type Diagnostics = Schemas["DiagnosticsObject"];
export type RolloutNeighbours = Schemas["RolloutNeighbours"];

/** Which rollouts of a job, and in which order; the names are the API's. */
export interface RolloutQuery {
  split?: Split;
  step?: number;
  from_step?: number;
  to_step?: number;
  row_index?: number;
  outcome?: Outcome;
  min_reward?: number;
  max_reward?: number;
  stop_reason?: StopReason;
  failure_code?: FailureCode;
  fault?: "endpoint" | "platform";
  tool?: string;
  min_tokens?: number;
  max_tokens?: number;
  min_duration_s?: number;
  max_duration_s?: number;
  q?: string;
  contains?: string;
  sort?: RolloutSort;
  order?: "asc" | "desc";
}

export type RolloutSort = "newest" | "reward" | "completion_tokens" | "duration_s" | "tool_calls";
