import { useLocation } from "wouter";
import type { RowChange } from "../../api/types";
import { PictureFiles } from "../../components/PictureFiles";
import { compact, count, fixed } from "../../lib/format";
import { type Against, AGAINST, change, changeTable, dots, quadrants, rewardChange } from "../../lib/policy_change";

interface Props {
  rows: readonly RowChange[];
  against: Against;
  /** What files are named after. */
  owner: string;
  hrefOf(row: RowChange): string;
}

const SIZE = 320;
const MARGIN = 14;
const REACH = SIZE / 2 - MARGIN;

/** Each row's change in reward, upwards, against its change in what it cost, to the right. */
export function Scatter({ rows, against, owner, hrefOf }: Props) {
  const [, navigate] = useLocation();
  const picture = dots(rows, against);
  const counts = quadrants(rows, against);
  const name = AGAINST.find((one) => one.value === against)?.label.toLowerCase() ?? "";
  const told = `better: ${counts.betterLess} with no more ${name}, ${counts.betterMore} with more; worse: ${counts.worseLess} with no more, ${counts.worseMore} with more; ${counts.same} earn the same`;
  return (
    <div className="scatter">
      <figure className="scatter-picture">
        <PictureFiles owner={owner} title={`Reward against ${name}`} csv={() => changeTable(rows)} />
        <svg viewBox={`0 0 ${SIZE} ${SIZE}`} role="img" aria-label={`Rows by change of reward and ${name}: ${told}`}>
          <line className="axis" x1={SIZE / 2} y1={MARGIN} x2={SIZE / 2} y2={SIZE - MARGIN} />
          <line className="axis" x1={MARGIN} y1={SIZE / 2} x2={SIZE - MARGIN} y2={SIZE / 2} />
          <text x={SIZE / 2 + 5} y={MARGIN + 2}>{`+${fixed(picture.y, 2)} reward`}</text>
          <text x={SIZE - MARGIN} y={SIZE / 2 - 5} textAnchor="end">{`+${compact(picture.x)} ${name}`}</text>
          {picture.dots.map(({ row, x, y }) => (
            // oxlint-disable-next-line jsx-a11y/click-events-have-key-events, jsx-a11y/no-static-element-interactions -- the table below has the same rows as links
            <circle
              key={row.row_index}
              className={y > 0 ? "better" : y < 0 ? "worse" : "same"}
              cx={SIZE / 2 + x * REACH}
              cy={SIZE / 2 - y * REACH}
              r={4}
              onClick={() => navigate(hrefOf(row))}
            >
              <title>{`row ${row.row_index}: reward ${signed(rewardChange(row), 3)}, ${name} ${signed(change(row, against), 1)}`}</title>
            </circle>
          ))}
        </svg>
      </figure>
      <table className="quadrants">
        <thead>
          <tr>
            <th>Rows</th>
            <th className="number">no more {name}</th>
            <th className="number">more {name}</th>
          </tr>
        </thead>
        <tbody>
          <tr>
            <th scope="row">better</th>
            <td className="number good">{count(counts.betterLess)}</td>
            <td className="number">{count(counts.betterMore)}</td>
          </tr>
          <tr>
            <th scope="row">worse</th>
            <td className="number">{count(counts.worseLess)}</td>
            <td className="number bad">{count(counts.worseMore)}</td>
          </tr>
          <tr>
            <th scope="row">the same</th>
            <td className="number" colSpan={2}>
              {count(counts.same)}
            </td>
          </tr>
        </tbody>
      </table>
    </div>
  );
}

export function signed(value: number, digits: number): string {
  return `${value > 0 ? "+" : ""}${fixed(value, digits)}`;
}
