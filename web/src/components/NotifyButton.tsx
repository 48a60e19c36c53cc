interface Props {
  isWanted: boolean;
  onChange(): void;
}

/** Whether the browser is to tell when something happens to the job. */
export function NotifyButton({ isWanted, onChange }: Props) {
  return (
    <button
      type="button"
      aria-pressed={isWanted}
      title="The browser tells you when a job whose page is open needs a look, or has ended"
      onClick={onChange}
    >
      {isWanted ? "Notifying" : "Notify me"}
    </button>
  );
}
