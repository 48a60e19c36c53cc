import type { ReactNode } from "react";

/** Text that is wider than its place: it scrolls, also by keyboard. */
export function Preformatted({
  label,
  className,
  children,
}: {
  label: string;
  className?: string;
  children: ReactNode;
}) {
  return (
    // oxlint-disable-next-line jsx-a11y/no-noninteractive-tabindex -- it scrolls, also by keyboard
    <pre className={className} tabIndex={0} role="region" aria-label={label}>
      {children}
    </pre>
  );
}
