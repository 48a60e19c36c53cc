import { type DragEvent, useState } from "react";
import type { Sending } from "../api/files";
import { fileSize, percent } from "../lib/format";

interface Props {
  /** What is to be dropped here, e.g. `a dataset (.jsonl)`. */
  what: string;
  sending: Sending;
}

/** Takes a file by drag and drop or by choice and sends it, with its progress. */
export function Upload({ what, sending }: Props) {
  const [isOver, setOver] = useState(false);
  const begin = (files: FileList | null) => {
    const file = files?.[0];
    if (file && sending.file === null) sending.start(file);
  };
  const onDrop = (event: DragEvent) => {
    event.preventDefault();
    setOver(false);
    begin(event.dataTransfer.files);
  };
  return (
    <div className="upload-place">
      {/* oxlint-disable-next-line jsx-a11y/no-static-element-interactions -- the button in it does the same */}
      <div
        className={isOver ? "upload is-over" : "upload"}
        onDragOver={(event) => (event.preventDefault(), setOver(true))}
        onDragLeave={() => setOver(false)}
        onDrop={onDrop}
      >
        {sending.file ? (
          <OnItsWay file={sending.file} share={sending.share} onStop={sending.stop} />
        ) : (
          <>
            <label className="button">
              Choose a file
              <input
                className="visually-hidden"
                type="file"
                accept=".jsonl"
                onChange={(event) => (begin(event.target.files), (event.target.value = ""))}
              />
            </label>
            <span className="muted">or drop {what} here</span>
          </>
        )}
      </div>
      {sending.wasStopped && <p className="muted">The upload was stopped; nothing of it is kept.</p>}
      {sending.error && (
        <p className="bad" role="alert">
          {sending.error.message}
        </p>
      )}
    </div>
  );
}

function OnItsWay({ file, share, onStop }: { file: File; share: number; onStop(): void }) {
  return (
    <>
      <span className="upload-name">
        {file.name} <span className="muted">{fileSize(file.size)}</span>
      </span>
      <div
        className="progress"
        role="progressbar"
        aria-label={`Upload of ${file.name}`}
        aria-valuenow={Math.round(share * 100)}
      >
        <div style={{ width: `${share * 100}%` }} />
      </div>
      <span className="muted nowrap">{share < 1 ? percent(share) : "reading its lines"}</span>
      <button type="button" onClick={onStop}>
        Stop
      </button>
    </>
  );
}
