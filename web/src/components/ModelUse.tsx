import type { ReactNode } from "react";
import { sdkCode } from "../lib/models";
import { Preformatted } from "./Preformatted";
import "./models.css";

/** How a model is used elsewhere: the official SDK's code, and the command that exports it. */
export function ModelUse({ modelId, children }: { modelId: string; children?: ReactNode }) {
  return (
    <div className="model-usage">
      <Preformatted label="Code for the official SDK">{sdkCode(modelId, location.origin)}</Preformatted>
      <dl className="facts">
        {children}
        <div>
          <dt>Export</dt>
          <dd className="mono">rft models export {modelId} DIR --merged</dd>
        </div>
      </dl>
    </div>
  );
}
