/** What each kind of grader asks for. */

export type LeafType =
  "string_check" | "text_similarity" | "score_model" | "label_model" | "python" | "endpoint" | "ruler";
export type GraderKind = LeafType | "multi" | "registered";

interface Field {
  name: string;
  label: string;
  /** `template`: text with `{{ item.path }}`; `lines`: a list, one a line; `numbers`: a list, with commas. */
  input: "text" | "template" | "code" | "prose" | "choice" | "lines" | "numbers";
  choices?: readonly string[];
  hint?: string;
}

export interface LeafForm {
  label: string;
  /** What it is for, in a sentence. */
  about: string;
  fields: readonly Field[];
  /** Messages to a judge. */
  hasMessages?: boolean;
  hasHeaders?: boolean;
}

const INPUT: Field = { name: "input", label: "Input", input: "template", hint: "What is judged." };
const REFERENCE: Field = { name: "reference", label: "Reference", input: "template", hint: "What it is held against." };
const JUDGE: Field = { name: "model", label: "Judge", input: "text", hint: "A model of the judge's server." };
const METRICS = [
  "fuzzy_match",
  "bleu",
  "gleu",
  "meteor",
  "rouge_1",
  "rouge_2",
  "rouge_3",
  "rouge_4",
  "rouge_5",
  "rouge_l",
];

export const LEAF_FORMS: Record<LeafType, LeafForm> = {
  string_check: {
    label: "String check",
    about: "Compares two texts: 1 or 0.",
    fields: [
      INPUT,
      {
        name: "operation",
        label: "Operation",
        input: "choice",
        choices: ["eq", "ne", "like", "ilike"],
        hint: "like: the input contains the reference; ilike: the same, whatever the case.",
      },
      REFERENCE,
    ],
  },
  text_similarity: {
    label: "Text similarity",
    about: "How alike two texts are, from 0 to 1.",
    fields: [INPUT, REFERENCE, { name: "evaluation_metric", label: "Metric", input: "choice", choices: METRICS }],
  },
  score_model: {
    label: "Score by a model",
    about: "A judge model gives a number within a range.",
    fields: [
      JUDGE,
      { name: "range", label: "Range", input: "numbers", hint: "Lowest and highest; 0, 1 where nothing is said." },
    ],
    hasMessages: true,
  },
  label_model: {
    label: "Label by a model",
    about: "A judge model chooses a label: 1 when it is a passing one, else 0.",
    fields: [
      JUDGE,
      { name: "labels", label: "Labels", input: "lines", hint: "One a line." },
      { name: "passing_labels", label: "Passing labels", input: "lines", hint: "One a line." },
    ],
    hasMessages: true,
  },
  python: {
    label: "Python",
    about: "Your grade(sample, item), run isolated on the platform.",
    fields: [{ name: "source", label: "Source", input: "code" }],
  },
  endpoint: {
    label: "Endpoint",
    about: "Your own grader behind a URL: it is sent sample, item and trace_id, and answers a score.",
    fields: [{ name: "url", label: "URL", input: "text" }],
    hasHeaders: true,
  },
  ruler: {
    label: "Ranking by a model",
    about: "A judge ranks all rollouts of a row in one call; rewards are relative to the group.",
    fields: [JUDGE, { name: "rubric", label: "Rubric", input: "prose", hint: "What good means here, in words." }],
  },
};

export const LEAF_TYPES = Object.keys(LEAF_FORMS) as LeafType[];
/** A ranking is of whole groups: it is no part of another grader. */
export const PART_TYPES = LEAF_TYPES.filter((type) => type !== "ruler");

const ANSWER = "{{sample.output_text}}";
const PYTHON = `def grade(sample, item):
    return 1.0 if item["answer"] in sample["output_text"] else 0.0
`;

/** What a new one begins with. */
export const FIRST_VALUES: Record<LeafType, Record<string, string>> = {
  string_check: { input: ANSWER, operation: "eq", reference: "{{item.answer}}" },
  text_similarity: { input: ANSWER, reference: "{{item.answer}}", evaluation_metric: "fuzzy_match" },
  score_model: {},
  label_model: { labels: "good\nbad", passing_labels: "good" },
  python: { source: PYTHON },
  endpoint: {},
  ruler: {},
};

export interface MessageDraft {
  role: string;
  content: string;
}

export const FIRST_MESSAGES: readonly MessageDraft[] = [
  { role: "system", content: "You judge answers. Compare the answer with the reference." },
  { role: "user", content: `Reference: {{item.answer}}\n\nAnswer: ${ANSWER}` },
];
