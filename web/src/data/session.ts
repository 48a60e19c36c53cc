/** A browser that is signed in, and how it came in. */
import { createContext, useContext } from "react";
import { ApiError } from "../api/http";
import { isSignedIn, signIn } from "../api/session";

export interface Session {
  /** End the session and ask for a key. */
  signOut(): void;
  /** Ask for a key, because the session has ended. */
  refuse(): void;
}

export const SessionContext = createContext<Session | null>(null);

export function useSession(): Session {
  const session = useContext(SessionContext);
  if (session === null) throw new Error("used outside of a session");
  return session;
}

export interface Entry {
  isIn: boolean;
  /** Why not, where there is something to say. */
  reason: string | null;
}

/** Comes in with what the address carried; a link that is used up harms nobody who is in already. */
export async function enter(token: string | null): Promise<Entry> {
  let reason: string | null = null;
  try {
    if (token !== null) {
      await signIn(token);
      return { isIn: true, reason: null };
    }
  } catch (error) {
    reason = messageOf(error);
  }
  try {
    return { isIn: await isSignedIn(), reason };
  } catch (error) {
    // The pages say what is the matter with the platform, and try again.
    return { isIn: !(error instanceof ApiError && error.status === 401), reason: null };
  }
}

/** What the platform said, in words. */
export function messageOf(error: unknown): string {
  if (error instanceof ApiError) return error.message;
  throw error;
}
