import type { RunFigures } from "../../api/types";
import { Scroll } from "../../components/Scroll";
import { type CriterionView, share } from "../../lib/evals";
import { fixed, reward } from "../../lib/format";

interface Props {
  figures: RunFigures;
  criteria: readonly CriterionView[];
}

/** Each criterion for itself, over all samples that have its score. */
export function CriteriaFigures({ figures, criteria }: Props) {
  const names = new Map(criteria.map((each) => [each.id, each.name]));
  return (
    <section className="panel" aria-labelledby="by-criterion">
      <header>
        <h2 id="by-criterion">By criterion</h2>
      </header>
      <Scroll label="Figures by criterion">
        <table>
          <thead>
            <tr>
              <th>Criterion</th>
              <th>Mean score</th>
              <th>Passed</th>
              <th className="number">Best of k</th>
              <th className="number">Variance within items</th>
            </tr>
          </thead>
          <tbody>
            {figures.criteria.map((each) => {
              const passed = share(each.passed);
              return (
                <tr key={each.testing_criteria}>
                  <td className="strong criterion-name">{names.get(each.testing_criteria) ?? each.testing_criteria}</td>
                  <td className="nowrap">
                    {reward(each.score_mean)}{" "}
                    {each.score && (
                      <span className="muted small">
                        {reward(each.score.low)} to {reward(each.score.high)}
                      </span>
                    )}
                  </td>
                  <td className="nowrap">
                    {passed.value} {passed.interval && <span className="muted small">{passed.interval}</span>}
                  </td>
                  <td className="number nowrap">
                    {Object.entries(each.best_of_k)
                      .filter(([k]) => Number(k) > 1)
                      .map(([k, value]) => `${fixed(value, 2)} @${k}`)
                      .join("  ") || "–"}
                  </td>
                  <td className="number">{fixed(each.variance_within_rows, 3)}</td>
                </tr>
              );
            })}
          </tbody>
        </table>
      </Scroll>
    </section>
  );
}
