/** Signing in and out. The session is a cookie that no script can read, so there is nothing to keep here. */
import { call, send } from "./http";
import { learnTime } from "./platform_time";
import type { Condition, SessionState, SignIn } from "./types";

const PATH = "/dashboard/session";

/** Whether this browser is signed in. Throws ApiError. */
export async function isSignedIn(): Promise<boolean> {
  return (await call<SessionState>("GET", PATH)).is_signed_in;
}

/** With an API key, or with the token of a sign-in link. Throws ApiError. */
export async function signIn(credential: string): Promise<void> {
  const wanted: SignIn = { credential };
  await call("POST", PATH, wanted);
}

/** Throws ApiError. */
export async function signOut(): Promise<void> {
  await call("DELETE", PATH);
}

/** A platform that takes longer is as good as gone: it may be there, and answer nobody. */
const PATIENCE_MS = 10_000;

/** Asked from every page: also whether the platform is there, what time it is there, and whether this browser is still
 * signed in. Throws ApiError. */
export async function condition(patienceMs = PATIENCE_MS): Promise<Condition> {
  const response = await send("GET", "/v1/dashboard/condition", undefined, {
    signal: AbortSignal.timeout(patienceMs),
  });
  learnTime(response.headers.get("date"));
  return (await response.json()) as Condition;
}
