import { Copy } from "../../components/Copy";

interface Props {
  title: string;
  secret: string;
  onClose(): void;
}

/** A secret that nobody is told again. */
export function ShownOnce({ title, secret, onClose }: Props) {
  return (
    <div className="shown-once" role="status">
      <strong>{title}</strong>
      <span>
        Copy it now: it is shown this once and stored only as its hash or encrypted. The next one can be made after
        that.
      </span>
      <Copy text={secret} label="it" />
      <button type="button" onClick={onClose}>
        I have it
      </button>
    </div>
  );
}
