import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import "./styles/theme.css";
import "./styles/base.css";
import "./styles/components.css";
import "./styles/job.css";
import "./styles/rollout.css";
import { enter } from "./data/session";
import { arrive } from "./lib/arrival";
import { App } from "./pages/App";
import { preload, preloadNext } from "./pages/routes";

const page = preload(location.pathname);

const { token, hash } = arrive(location.hash);
if (token !== null) {
  // Not in the address bar, the history or a bookmark, though it is used up at once.
  history.replaceState(null, "", location.pathname + location.search + hash);
}
// Another link pasted over this page's address loads nothing by itself.
addEventListener("hashchange", () => arrive(location.hash).token !== null && location.reload());

const root = document.getElementById("root");
if (root === null) throw new Error("index.html has no #root");
const [entry] = await Promise.all([enter(token), page]);
createRoot(root).render(
  <StrictMode>
    <App start={entry} />
  </StrictMode>,
);
preloadNext();
