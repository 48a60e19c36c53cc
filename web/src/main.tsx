import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import "./styles/theme.css";
import "./styles/base.css";
import "./styles/components.css";
import "./styles/job.css";
import "./styles/rollout.css";
import { arrive, STORAGE_KEY } from "./lib/key";
import { App } from "./pages/App";

const { key, hash } = arrive(location.hash);
if (key !== null) {
  localStorage.setItem(STORAGE_KEY, key);
  // The key must not stay in the address bar, the history or a bookmark.
  history.replaceState(null, "", location.pathname + location.search + hash);
}

const root = document.getElementById("root");
if (root === null) throw new Error("index.html has no #root");
createRoot(root).render(
  <StrictMode>
    <App />
  </StrictMode>,
);
