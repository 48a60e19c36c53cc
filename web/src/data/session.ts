/** The API key and the client made with it. */
import { createContext, useContext } from "react";
import type { Client } from "../api/client";

export interface Session {
  apiKey: string;
  client: Client;
  /** Forget the key and ask for another one. */
  signOut(): void;
  /** The same, because the platform does not know the key. */
  refuse(): void;
}

export const SessionContext = createContext<Session | null>(null);

export function useSession(): Session {
  const session = useContext(SessionContext);
  if (session === null) throw new Error("used outside of a session");
  return session;
}
