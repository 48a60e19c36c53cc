// Dumps the API's OpenAPI document and writes the TypeScript types from it.
// `--types-only` skips the dump. PYTHON names another interpreter than the repository's own.
import { execFileSync } from "node:child_process";
import { existsSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const web = dirname(dirname(fileURLToPath(import.meta.url)));
const codegen = join(web, "codegen");
const python = process.env.PYTHON ?? join(web, "..", ".venv", "bin", "python");

if (!process.argv.includes("--types-only")) {
  const document = execFileSync(python, [join(web, "scripts", "dump_openapi.py")], { encoding: "utf8" });
  writeFileSync(join(web, "openapi.json"), document);
}
if (!existsSync(join(codegen, "node_modules"))) {
  execFileSync("npm", ["ci", "--prefix", codegen], { stdio: "inherit" });
}
execFileSync(
  process.execPath,
  [
    join(codegen, "node_modules", "openapi-typescript", "bin", "cli.js"),
    join(web, "openapi.json"),
    "--output",
    join(web, "src", "api", "schema.d.ts"),
    "--alphabetize",
  ],
  { stdio: "inherit" },
);
