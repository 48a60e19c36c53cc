/** The time of now, for durations that grow while one looks. */
import { useEffect, useState } from "react";
import { platformNow } from "../api/platform_time";

/** Unix seconds by the platform's clock, again every second while `isTicking`. */
export function useNow(isTicking: boolean): number {
  const [now, setNow] = useState(platformNow);
  useEffect(() => {
    if (!isTicking) return;
    const timer = setInterval(() => setNow(platformNow()), 1000);
    return () => clearInterval(timer);
  }, [isTicking]);
  return now;
}
