// What the committed build was made from, so that a test without node can tell whether it is stale.
import { createHash } from "node:crypto";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

const SINGLE_FILES = ["index.html", "package-lock.json", "vite.config.ts"];

/** SHA-256 over path, NUL, content, NUL of every source in path order; tests and `testing/` do not count. */
export function sourcesSha256(web) {
  const inSrc = readdirSync(join(web, "src"), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && !entry.name.includes(".test.") && !entry.parentPath.endsWith("testing"))
    .map((entry) =>
      join(entry.parentPath, entry.name)
        .slice(web.length + 1)
        .replaceAll("\\", "/"),
    );
  const hash = createHash("sha256");
  for (const path of [...inSrc, ...SINGLE_FILES].sort()) {
    hash
      .update(path)
      .update("\0")
      .update(readFileSync(join(web, path)))
      .update("\0");
  }
  return hash.digest("hex");
}

/** Vite plugin: leaves `build.json` beside the built assets. */
export function fingerprint(web, outDir) {
  return {
    name: "fingerprint",
    apply: "build",
    closeBundle() {
      const openapi = createHash("sha256")
        .update(readFileSync(join(web, "openapi.json")))
        .digest("hex");
      const content = { sources_sha256: sourcesSha256(web), openapi_sha256: openapi };
      writeFileSync(join(outDir, "build.json"), JSON.stringify(content, null, 2) + "\n");
    },
  };
}
