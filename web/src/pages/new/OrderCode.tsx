import { useState } from "react";
import { useCopying } from "../../components/copying";
import { Preformatted } from "../../components/Preformatted";
import { Segmented } from "../../components/Segmented";
import type { JsonObject } from "../../lib/draft";
import { cliCode, sdkCode, variablesOf } from "../../lib/order_code";

type Language = "python" | "cli";
const LANGUAGES: { value: Language; label: string }[] = [
  { value: "python", label: "Python" },
  { value: "cli", label: "Command line" },
];

/** The same order as code; secrets are read from the environment. */
export function OrderCode({ order }: { order: JsonObject }) {
  const [language, setLanguage] = useState<Language>("python");
  const [isCopied, copy] = useCopying();
  const baseUrl = `${location.origin}/v1`;
  const code = language === "python" ? sdkCode(order, baseUrl) : cliCode(order, baseUrl);
  const variables = ["RFT_API_KEY", ...variablesOf(order)];
  return (
    <section className="panel" aria-labelledby="new-code">
      <header>
        <h2 id="new-code">The same as code</h2>
        <span className="spacer" />
        <Segmented label="Language" options={LANGUAGES} value={language} onChange={setLanguage} />
        <button type="button" onClick={() => copy(code)}>
          {isCopied ? "Copied" : "Copy"}
        </button>
      </header>
      <Preformatted label="Code" className="order-code">
        {code}
      </Preformatted>
      <p className="muted small order-variables">
        It reads {variables.join(", ")} from the environment: no secret is in it.
      </p>
    </section>
  );
}
