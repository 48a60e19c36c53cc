import { join } from "node:path";
import react from "@vitejs/plugin-react";
import { defineConfig } from "vitest/config";
import { fingerprint } from "./scripts/fingerprint.mjs";

const web = import.meta.dirname;
const outDir = join(web, "..", "platform", "rft", "platform", "web_assets");

const platform = process.env.RFT_URL ?? "http://127.0.0.1:8787";

export default defineConfig({
  root: web,
  plugins: [react(), fingerprint(web, outDir)],
  build: {
    outDir,
    emptyOutDir: true,
    license: { fileName: "licenses.md" },
    // The page's policy takes nothing that is written into it, images included.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
  },
  server: { proxy: Object.fromEntries(["/v1", "/dashboard"].map((path) => [path, platform])) },
  test: { include: ["src/**/*.test.ts"] },
});
