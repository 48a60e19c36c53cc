import type { Plugin } from "vite";

export function sourcesSha256(web: string): string;
export function fingerprint(web: string, outDir: string): Plugin;
