import { useState } from "react";
import { Link, useLocation } from "wouter";
import type { StoredFile } from "../../api/types";
import { Confirmation } from "../../components/Confirmation";
import { Copy } from "../../components/Copy";
import { RefusedAction } from "../../components/RefusedAction";
import { More } from "../../components/More";
import { Preformatted } from "../../components/Preformatted";
import { Scroll } from "../../components/Scroll";
import { Empty, Problem, Skeleton } from "../../components/State";
import { Trail } from "../../components/Trail";
import { useDownload } from "../../data/actions";
import { useDeleteFile, useFile, useFileProblems, useFirstLines, useFileUses } from "../../data/files";
import { contentOf, fileMark, kindOf, pathOf, type PreviewRow, previewOf, readNote } from "../../lib/datasets";
import { dateTime, fileSize, humanize } from "../../lib/format";
import "./datasets.css";

const PREVIEWED = 20;

/** One file: what is wrong with it, its first rows, who uses it. */
export function DatasetPage({ fileId }: { fileId: string }) {
  const file = useFile(fileId);
  return (
    <>
      <Trail parts={[{ label: "Datasets", href: "/datasets" }, { label: file.data?.filename ?? fileId }]} />
      <title>{`${file.data?.filename ?? fileId} · Agent RFT`}</title>
      {file.error && <Problem error={file.error} onRetry={() => void file.refetch()} />}
      {file.isPending && <Skeleton height={320} />}
      {file.data && (
        <>
          <Header file={file.data} />
          <Report file={file.data} />
          <Preview fileId={fileId} />
          <Uses fileId={fileId} />
        </>
      )}
    </>
  );
}

function Header({ file }: { file: StoredFile }) {
  const remove = useDeleteFile();
  const download = useDownload();
  const [, navigate] = useLocation();
  const [isAsking, setAsking] = useState(false);
  const mark = fileMark(file);
  const facts = [contentOf(file), fileSize(file.bytes), `for ${file.purpose}`, dateTime(file.created_at)];
  return (
    <>
      <header className="title-row">
        <h1 className="file-name">{file.filename}</h1>
        <span className={`badge ${mark.tone}`}>{mark.label}</span>
        <span className="spacer" />
        <div className="actions">
          <button
            type="button"
            disabled={download.isPending}
            onClick={() => download.mutate({ fileId: file.id, name: file.filename })}
          >
            Download
          </button>
          <button type="button" onClick={() => setAsking(true)}>
            Delete
          </button>
        </div>
      </header>
      <p className="muted file-facts">
        {facts.filter(Boolean).map((fact) => (
          <span key={fact}>{fact}</span>
        ))}
        {file.expires_at !== null && <span>expires {dateTime(file.expires_at)}</span>}
        <Copy text={file.id} label="id" />
      </p>
      <RefusedAction error={remove.error ?? download.error} onClose={() => (remove.reset(), download.reset())} />
      {isAsking && (
        <Confirmation
          title="Delete this file?"
          consequence="Jobs and runs that are over keep their figures, but the rows themselves can no longer be shown."
          label="Yes, delete"
          otherwise="Keep it"
          onConfirm={() => remove.mutate(file.id, { onSuccess: () => navigate("/datasets") })}
          onClose={() => setAsking(false)}
        />
      )}
    </>
  );
}

/** The bad lines, each with its place and reason. */
function Report({ file }: { file: StoredFile }) {
  const isBad = (file.dataset?.problems ?? 0) > 0;
  const problems = useFileProblems(file.id, isBad);
  const all = problems.data?.pages.flatMap((page) => page.data) ?? [];
  if (!isBad) return file.status_details && <p className="banner warn lines">{file.status_details}</p>;
  return (
    <section className="panel" aria-labelledby="report">
      <header>
        <h2 id="report">Bad lines</h2>
        <span className="muted small">A job that uses this file fails. {readNote(file)}</span>
      </header>
      {problems.error && <Problem error={problems.error} onRetry={() => void problems.refetch()} />}
      <Scroll label="Bad lines">
        <table>
          <thead>
            <tr>
              <th className="number line-column">Line</th>
              <th>Where</th>
              <th>What is wrong</th>
            </tr>
          </thead>
          <tbody>
            {all.map((problem) => (
              <tr key={problem.id}>
                <td className="number">{problem.line}</td>
                <td className="mono">{problem.path || "the line"}</td>
                <td>{problem.reason}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </Scroll>
      <More query={problems} label="More lines" />
    </section>
  );
}

function Preview({ fileId }: { fileId: string }) {
  const lines = useFirstLines(fileId, PREVIEWED);
  return (
    <section className="panel" aria-labelledby="preview">
      <header>
        <h2 id="preview">First rows</h2>
      </header>
      {lines.error && <Problem error={lines.error} onRetry={() => void lines.refetch()} />}
      {lines.isPending && <Skeleton height={120} />}
      {lines.data?.length === 0 && <Empty title="The file is empty" />}
      <ol className="preview">
        {previewOf(lines.data ?? []).map((row) => (
          <PreviewLine key={row.line} row={row} />
        ))}
      </ol>
    </section>
  );
}

function PreviewLine({ row }: { row: PreviewRow }) {
  const [isOpen, setOpen] = useState(false);
  return (
    <li>
      <details onToggle={(event) => setOpen(event.currentTarget.open)}>
        <summary>
          <span className="muted preview-line">{row.line}</span>
          <span className="preview-text">{row.text}</span>
        </summary>
        {isOpen && <Preformatted label={`Line ${row.line}`}>{row.whole}</Preformatted>}
      </details>
    </li>
  );
}

function Uses({ fileId }: { fileId: string }) {
  const uses = useFileUses(fileId);
  return (
    <section className="panel" aria-labelledby="uses">
      <header>
        <h2 id="uses">Where it is used</h2>
      </header>
      {uses.error && <Problem error={uses.error} onRetry={() => void uses.refetch()} />}
      {uses.data?.length === 0 && <Empty title="Nowhere yet" />}
      {uses.data && uses.data.length > 0 && (
        <ul className="uses">
          {uses.data.map((use) => {
            const path = pathOf(use);
            const name = use.name ?? use.id;
            return (
              <li key={use.id}>
                <span className="muted use-kind">{kindOf(use)}</span>
                {path ? <Link href={path}>{name}</Link> : <span className="mono">{name}</span>}
                <span className="muted">as {use.purpose}</span>
                <span className="spacer" />
                <span className="muted">{humanize(use.status)}</span>
                <span className="muted spare">{dateTime(use.created_at)}</span>
              </li>
            );
          })}
        </ul>
      )}
    </section>
  );
}
