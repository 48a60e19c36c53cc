/** What the platform answered to the last action, where it refused it. */
export function RefusedAction({ error, onClose }: { error: Error | null; onClose(): void }) {
  if (error === null) return null;
  return (
    <div className="banner" role="alert">
      <strong>Not done</strong>
      <span>{error.message}</span>
      <span className="spacer" />
      <button type="button" onClick={onClose}>
        Close
      </button>
    </div>
  );
}
