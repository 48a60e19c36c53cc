/** The parts of the dashboard. */

export interface Section {
  label: string;
  href: string;
  /** First parts of the addresses that belong to it. */
  paths: readonly string[];
}

export const SECTIONS: readonly Section[] = [
  { label: "Jobs", href: "/", paths: ["", "jobs", "new", "compare"] },
  { label: "Datasets", href: "/datasets", paths: ["datasets"] },
  { label: "Models", href: "/models", paths: ["models"] },
  { label: "Evals", href: "/evals", paths: ["evals"] },
  { label: "Endpoints", href: "/endpoints", paths: ["endpoints"] },
  { label: "Settings", href: "/settings", paths: ["settings"] },
];

/** The id of the job that an address is about, itself or a part of it. */
export function jobOf(path: string): string | null {
  const [, first, id] = path.split("/");
  return first === "jobs" && id ? decodeURIComponent(id) : null;
}

/** The section that an address lies in; none for an address that leads nowhere. */
export function sectionOf(path: string): Section | null {
  const first = path.split("/")[1] ?? "";
  return SECTIONS.find((section) => section.paths.includes(first)) ?? null;
}
