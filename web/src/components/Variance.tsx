import type { RowSpread, Variance } from "../api/types";
import { count, fixed, percent, plural } from "../lib/format";
import { type Bars, barsOf, drawnOf, spreadTable } from "../lib/variance";
import { PictureFiles } from "./PictureFiles";
import { Empty } from "./State";
import "./variance.css";

interface Props {
  variance: Variance;
  /** Of something else than what is chosen. */
  isStale?: boolean;
  /** What a row is called here. */
  noun: string;
  /** What files are named after. */
  owner: string;
}

/** Rows by their mean with best and spread, and what they say of the size of groups. */
export function VarianceView({ variance, isStale = false, noun, owner }: Props) {
  if (variance.rows === 0) return <Empty title="Nothing is graded yet" />;
  return (
    <div className="variance" inert={isStale}>
      <Picture bars={barsOf(variance.data)} rows={variance.data} all={variance.rows} noun={noun} owner={owner} />
      <div className="stack">
        <dl className="facts">
          <div>
            <dt>Mean</dt>
            <dd>{fixed(variance.mean, 3)}</dd>
          </div>
          <div>
            <dt>With signal</dt>
            <dd>
              {variance.share_with_signal === null
                ? "–"
                : `${percent(variance.share_with_signal)}, ${count(variance.rows_with_signal)} of ${plural(variance.rows_sampled_twice, noun)}`}
            </dd>
          </div>
          <div>
            <dt>Advice</dt>
            <dd className="strong">
              {variance.advised_multiplier === null
                ? "none yet"
                : `compute_multiplier ${fixed(variance.advised_multiplier, 1)}`}
            </dd>
          </div>
        </dl>
        <p className="muted small">{variance.advice}</p>
        {variance.by_group_size.length > 0 && <GroupSizes variance={variance} />}
      </div>
    </div>
  );
}

function GroupSizes({ variance }: Pick<Props, "variance">) {
  return (
    <table className="group-sizes">
      <thead>
        <tr>
          <th>compute_multiplier</th>
          <th className="number">Group</th>
          <th className="number">With signal</th>
        </tr>
      </thead>
      <tbody>
        {variance.by_group_size.map((each) => (
          <tr
            key={each.compute_multiplier}
            className={each.compute_multiplier === variance.advised_multiplier ? "is-advised" : ""}
          >
            <td>{each.compute_multiplier}</td>
            <td className="number">{each.group_size}</td>
            <td className="number">
              {each.is_lower_bound && "≥ "}
              {percent(each.share)}
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

interface PictureProps extends Pick<Props, "noun" | "owner"> {
  bars: Bars;
  rows: readonly RowSpread[];
  /** How many there are, drawn or not. */
  all: number;
}

function Picture({ bars, rows, all, noun, owner }: PictureProps) {
  const { width, height } = bars;
  return (
    <figure className="variance-picture">
      <PictureFiles owner={owner} title="Variance" csv={() => spreadTable(rows, noun)} />
      <svg
        viewBox={`0 0 ${width} ${height}`}
        preserveAspectRatio="none"
        role="img"
        aria-label={`${plural(rows.length, noun)} by their mean`}
      >
        <path className="variance-mean" d={bars.means} />
        <path className="variance-spread" d={bars.spreads} />
        <path className="variance-best" d={bars.bests} />
      </svg>
      <figcaption className="muted small">
        <span>
          <i className="swatch variance-mean" /> mean
        </span>
        <span>
          <i className="swatch line variance-spread" /> ± standard deviation
        </span>
        <span>
          <i className="swatch line variance-best" /> best
        </span>
        <span className="spacer" />
        <span>{drawnOf(rows.length, all, noun)}</span>
        <span>
          {fixed(bars.low, 2)} to {fixed(bars.high, 2)}
        </span>
      </figcaption>
    </figure>
  );
}
