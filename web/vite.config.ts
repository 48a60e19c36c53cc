import { join } from "node:path";
import react from "@vitejs/plugin-react";
import { defineConfig } from "vitest/config";
import { fingerprint } from "./scripts/fingerprint.mjs";

const web = import.meta.dirname;
const outDir = join(web, "..", "platform", "rft", "platform", "web_assets");

export default defineConfig({
  root: web,
  plugins: [react(), fingerprint(web, outDir)],
  build: {
    outDir,
    emptyOutDir: true,
    license: { fileName: "licenses.md" },
    modulePreload: { polyfill: false },
  },
  server: { proxy: { "/v1": process.env.RFT_URL ?? "http://127.0.0.1:8787" } },
  test: { include: ["src/**/*.test.ts"] },
});
