import { Link } from "wouter";

/** Where a page is, from its section down; the last part is the page itself. */
export function Trail({ parts }: { parts: readonly { label: string; href?: string }[] }) {
  return (
    <nav className="trail" aria-label="Breadcrumb">
      {parts.map((part) => (
        <span key={part.label}>{part.href ? <Link href={part.href}>{part.label}</Link> : part.label}</span>
      ))}
    </nav>
  );
}
