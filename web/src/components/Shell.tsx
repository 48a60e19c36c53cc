import type { ReactNode } from "react";
import { Link, useLocation } from "wouter";
import { SECTIONS, sectionOf } from "../lib/sections";

interface Props {
  onSearch(): void;
  onKeys(): void;
  onSignOut(): void;
  children: ReactNode;
}

/** Top bar with the sections of the dashboard, and the page below. */
export function Shell({ onSearch, onKeys, onSignOut, children }: Props) {
  const [path] = useLocation();
  const current = sectionOf(path);
  return (
    <>
      <header className="topbar">
        <Link href="/" className="brand">
          <Mark />
          Agent RFT
        </Link>
        <nav aria-label="Main">
          {SECTIONS.map((section) => (
            <Link key={section.href} href={section.href} aria-current={section === current ? "page" : undefined}>
              {section.label}
            </Link>
          ))}
        </nav>
        <button type="button" className="search-opener" onClick={onSearch} aria-keyshortcuts="Control+K">
          Search <kbd className="spare">Ctrl K</kbd>
        </button>
        <button type="button" className="quiet spare" aria-label="Keys" onClick={onKeys}>
          ?
        </button>
        <button type="button" className="quiet" onClick={onSignOut}>
          Sign out
        </button>
      </header>
      <main className="page">{children}</main>
    </>
  );
}

function Mark() {
  return (
    <svg
      width="18"
      height="18"
      viewBox="0 0 16 16"
      fill="none"
      stroke="currentColor"
      strokeWidth="2.2"
      strokeLinecap="round"
      strokeLinejoin="round"
      aria-hidden="true"
    >
      <path d="M1 13 6 8l3 2 6-7" />
    </svg>
  );
}
