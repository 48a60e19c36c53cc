import { useEffect, useId, useRef } from "react";

interface Props {
  title: string;
  /** What happens then. */
  consequence: string;
  /** Of the button that does it. */
  label: string;
  /** Of the button that does nothing. */
  otherwise: string;
  onConfirm(): void;
  onClose(): void;
}

/** Asks before something that cannot be taken back. Doing nothing has the focus, and Escape. */
export function Confirmation({ title, consequence, label, otherwise, onConfirm, onClose }: Props) {
  const dialog = useRef<HTMLDialogElement>(null);
  const [titleId, textId] = [useId(), useId()];
  useEffect(() => dialog.current?.showModal(), []);
  return (
    <dialog ref={dialog} role="alertdialog" aria-labelledby={titleId} aria-describedby={textId} onClose={onClose}>
      <form method="dialog">
        <h2 id={titleId}>{title}</h2>
        <p id={textId}>{consequence}</p>
        <div className="dialog-actions">
          <button type="submit">{otherwise}</button>
          <button type="submit" className="danger" onClick={onConfirm}>
            {label}
          </button>
        </div>
      </form>
    </dialog>
  );
}
