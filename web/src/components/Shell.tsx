import type { ReactNode } from "react";
import { Link } from "wouter";

interface Props {
  /** Where we are, below the list of jobs. */
  trail?: readonly { label: string; href?: string }[];
  onSignOut(): void;
  children: ReactNode;
}

/** Top bar and page. */
export function Shell({ trail = [], onSignOut, children }: Props) {
  return (
    <>
      <header className="topbar">
        <nav aria-label="Breadcrumb">
          <Link href="/" className="brand">
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
            Agent RFT
          </Link>
          {trail.map((part) => (
            <span key={part.label} className="crumb">
              <span aria-hidden="true">/ </span>
              {part.href ? <Link href={part.href}>{part.label}</Link> : part.label}
            </span>
          ))}
        </nav>
        <button type="button" className="quiet" onClick={onSignOut}>
          Sign out
        </button>
      </header>
      <main className="page">{children}</main>
    </>
  );
}
