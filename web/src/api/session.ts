/** Signing in and out. The session is a cookie that no script can read, so there is nothing to keep here. */
import { call, get } from "./http";
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

/** Asked from every page: also whether the platform is there, and whether this browser is still signed in. */
export const condition = () => get<Condition>("/v1/dashboard/condition");
