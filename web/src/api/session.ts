/** Signing in and out. The session is a cookie that no script can read, so there is nothing to keep here. */
import { ApiError, errorOf, UNREACHABLE } from "./client";
import type { SessionState, SignIn } from "./types";

const PATH = "/dashboard/session";

/** Whether this browser is signed in. Throws ApiError. */
export async function isSignedIn(): Promise<boolean> {
  return (await call("GET")).is_signed_in;
}

/** With an API key, or with the token of a sign-in link. Throws ApiError. */
export async function signIn(credential: string): Promise<void> {
  await call("POST", { credential });
}

/** Throws ApiError. */
export async function signOut(): Promise<void> {
  await call("DELETE");
}

async function call(method: "GET" | "POST" | "DELETE", body?: SignIn): Promise<SessionState> {
  const init: RequestInit = { method };
  if (body) Object.assign(init, { headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });
  const response = await fetch(PATH, init).catch(() => {
    throw new ApiError(0, UNREACHABLE);
  });
  if (!response.ok) throw await errorOf(response);
  return (await response.json()) as SessionState;
}
