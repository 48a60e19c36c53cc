import { rewardRange, type Values } from "../lib/series";
import { bucketed, sparkPath } from "../lib/sparkline";

const WIDTH = 96;
const HEIGHT = 22;

/** Train reward and, above it, validation reward; the table beside it holds the numbers. */
export function Sparkline({ train, valid }: { train: Values; valid: Values }) {
  const lines = [bucketed(train, 48), bucketed(valid, 48)];
  const all = lines.flat();
  const range = rewardRange(all.length ? Math.min(...all) : null, all.length ? Math.max(...all) : null);
  return (
    <svg width={WIDTH} height={HEIGHT} viewBox={`-1 -1 ${WIDTH + 2} ${HEIGHT + 2}`} aria-hidden="true">
      {lines.map((values, i) => (
        <path
          key={i === 0 ? "train" : "valid"}
          d={sparkPath(values, range, WIDTH, HEIGHT)}
          fill="none"
          stroke={i === 0 ? "var(--c-train)" : "var(--c-valid)"}
          strokeWidth={1.5}
          strokeLinejoin="round"
        />
      ))}
    </svg>
  );
}
