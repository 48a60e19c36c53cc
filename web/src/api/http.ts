/** Requests to the platform that the page comes from; the browser adds its session to each. */
import { parseExactIn } from "./exact_json";

/** The API answered with an error, or could not be reached (`status` 0). */
export class ApiError extends Error {
  override readonly name = "ApiError";
  readonly status: number;
  readonly code: string | null;
  /** The field of the request that is wrong, where it is one. */
  readonly param: string | null;

  constructor(status: number, message: string, code: string | null = null, param: string | null = null) {
    super(message);
    this.status = status;
    this.code = code;
    this.param = param;
  }
}

export interface Page<T> {
  data: T[];
  has_more: boolean;
}

/** How far a reply goes: a stream goes on after it, so that nothing is missed in between. */
export interface Positioned {
  lastEventId: string;
}

export type Method = "GET" | "POST" | "PATCH" | "PUT" | "DELETE";
type Parameter = string | number | boolean;
/** A list stands for a parameter that is given several times. */
export type Parameters = Record<string, Parameter | readonly Parameter[] | undefined>;

export const UNREACHABLE = "The platform cannot be reached.";

export interface SendOptions {
  /** Gives it up: it fails as one of a platform that cannot be reached. */
  signal?: AbortSignal;
  /** Of an order: sent twice with one key, it is made once. */
  key?: string;
}

/** A reply that is good. A body is sent as JSON, a form as what it is. Throws ApiError. */
export async function send(method: Method, path: string, body?: unknown, options: SendOptions = {}): Promise<Response> {
  const { signal = null, key } = options;
  const { headers, ...content } = contentOf(body);
  const all = { ...headers, ...(key !== undefined && { "Idempotency-Key": key }) };
  const response = await fetch(path, { method, ...content, headers: all, signal }).catch(() => {
    throw new ApiError(0, UNREACHABLE);
  });
  if (!response.ok) throw await errorOf(response);
  return response;
}

/** A reply's body. Throws ApiError. */
export async function call<T>(method: Method, path: string, body?: unknown, options?: SendOptions): Promise<T> {
  return (await (await send(method, path, body, options)).json()) as T;
}

export const get = <T>(path: string, parameters: Parameters = {}) => call<T>("GET", path + queryString(parameters));

/** As `get`; in these fields of the reply, which customers filled, numbers are as they wrote them. */
export const getExact = <T>(fields: readonly string[], path: string, parameters: Parameters = {}) =>
  callExact<T>(fields, "GET", path + queryString(parameters));

/** As `call`, with such fields. */
export async function callExact<T>(
  fields: readonly string[],
  method: Method,
  path: string,
  body?: unknown,
  options?: SendOptions,
): Promise<T> {
  return parseExactIn(await (await send(method, path, body, options)).text(), fields) as T;
}

export async function getPositioned<T>(path: string, parameters: Parameters = {}): Promise<T & Positioned> {
  const response = await send("GET", path + queryString(parameters));
  return { ...((await response.json()) as T), lastEventId: response.headers.get("last-event-id") ?? "0" };
}

/** Every item of a list. */
export async function allPages<T>(page: (after: string | undefined) => Promise<Page<T>>, cursor: (item: T) => string) {
  const items: T[] = [];
  for (let after: string | undefined; ;) {
    const { data, has_more } = await page(after);
    items.push(...data);
    const last = data.at(-1);
    if (!has_more || last === undefined) return items;
    after = cursor(last);
  }
}

/** Path below a collection, each part escaped. */
export function at(...parts: string[]): string {
  return parts.map((part) => `/${encodeURIComponent(part)}`).join("");
}

/** `?a=1&b=2`, without what is undefined; empty when nothing is left. */
export function queryString(parameters: Parameters): string {
  const given = Object.entries(parameters).flatMap(([name, value]) =>
    value === undefined ? [] : [value].flat().map((one) => [name, String(one)]),
  );
  const text = new URLSearchParams(given).toString();
  return text && `?${text}`;
}

/** What the API's envelope says, or what the status does. */
export async function errorOf(response: Response): Promise<ApiError> {
  const body: unknown = await response.json().catch(() => null);
  const envelope = (body as { error?: Record<string, unknown> } | null)?.error ?? {};
  return new ApiError(
    response.status,
    textOrNull(envelope.message) ?? `The API answered HTTP ${response.status}.`,
    textOrNull(envelope.code),
    textOrNull(envelope.param),
  );
}

function textOrNull(value: unknown): string | null {
  return typeof value === "string" ? value : null;
}

function contentOf(body: unknown): { body?: BodyInit; headers?: Record<string, string> } {
  if (body === undefined) return {};
  if (body instanceof FormData) return { body };
  return { headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) };
}
