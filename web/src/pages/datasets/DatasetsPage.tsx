import { useState } from "react";
import { Link, useLocation } from "wouter";
import type { Purpose, StoredFile } from "../../api/types";
import { More } from "../../components/More";
import { Segmented } from "../../components/Segmented";
import { Empty, Problem, Skeleton } from "../../components/State";
import { Upload } from "../../components/Upload";
import { useAllFiles, useUpload } from "../../data/files";
import { contentOf, fileMark } from "../../lib/datasets";
import { dateTime, fileSize } from "../../lib/format";
import "./datasets.css";

const PURPOSES = [
  { value: "fine-tune", label: "For training" },
  { value: "evals", label: "For evals" },
] as const satisfies readonly { value: Purpose; label: string }[];

const WHAT: Record<Purpose, string> = {
  "fine-tune": 'a dataset (.jsonl), a row per line: {"messages": [...], ...}',
  evals: 'items (.jsonl), one per line: {"item": {...}}',
};

/** All files by what they are for; one is sent by dropping it here. */
export function DatasetsPage() {
  const [purpose, setPurpose] = useState<Purpose>("fine-tune");
  const [, navigate] = useLocation();
  const files = useAllFiles(purpose);
  const sending = useUpload(purpose, (file) => navigate(`/datasets/${file.id}`));
  const all = files.data?.pages.flatMap((page) => page.data) ?? [];
  return (
    <>
      <title>Datasets · Agent RFT</title>
      <h1>Datasets</h1>
      <section className="panel" aria-labelledby="upload">
        <header>
          <h2 id="upload">Upload</h2>
          <span className="spacer" />
          <Segmented label="What the file is for" options={PURPOSES} value={purpose} onChange={setPurpose} />
        </header>
        <div className="upload-body">
          <Upload what={WHAT[purpose]} sending={sending} />
        </div>
      </section>
      {files.error && <Problem error={files.error} onRetry={() => void files.refetch()} />}
      {files.isPending && <Skeleton height={220} />}
      {files.data && (
        <section className="panel" aria-label="Files">
          {all.length === 0 ? (
            <Empty title="No files yet">Drop one above; its lines are read at once.</Empty>
          ) : (
            <Files files={all} />
          )}
          <More query={files} label="Older files" />
        </section>
      )}
    </>
  );
}

function Files({ files }: { files: readonly StoredFile[] }) {
  return (
    <div className="scroll">
      <table>
        <thead>
          <tr>
            <th>File</th>
            <th>Lines</th>
            <th>Content</th>
            <th className="number">Size</th>
            <th className="spare">Uploaded</th>
          </tr>
        </thead>
        <tbody>
          {files.map((file) => {
            const mark = fileMark(file);
            return (
              <tr key={file.id} className="clickable">
                <td className="file-name">
                  <Link href={`/datasets/${file.id}`} className="row-link">
                    {file.filename}
                  </Link>
                </td>
                <td>
                  <span className={`badge ${mark.tone}`}>{mark.label}</span>
                </td>
                <td className="muted">{contentOf(file) ?? "–"}</td>
                <td className="number nowrap">{fileSize(file.bytes)}</td>
                <td className="spare muted nowrap">{dateTime(file.created_at)}</td>
              </tr>
            );
          })}
        </tbody>
      </table>
    </div>
  );
}
