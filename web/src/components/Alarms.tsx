import { Link } from "wouter";
import type { Alarm } from "../lib/alarms";

/** What needs somebody, each with the way to its evidence. */
export function Alarms({ alarms }: { alarms: readonly Alarm[] }) {
  if (alarms.length === 0) return null;
  return (
    <section className="banner warn alarms" aria-label="Alarms">
      {/* Not all of it: how long something stands still is another text each second. */}
      <strong role="status">{alarms.length === 1 ? "Needs a look" : `${alarms.length} things need a look`}</strong>
      <ul>
        {alarms.map((alarm) => (
          <li key={alarm.key}>
            {alarm.text} <Evidence href={alarm.href} />
          </li>
        ))}
      </ul>
    </section>
  );
}

/** On this page the browser goes there by itself; elsewhere the page that is there does. */
function Evidence({ href }: { href: string }) {
  const [, anchor] = href.split("#");
  return anchor === undefined ? <Link href={href}>Show</Link> : <a href={`#${anchor}`}>Show</a>;
}

/** In a list: that there is something, and what. */
export function AlarmMark({ alarms }: { alarms: readonly Alarm[] }) {
  const [first] = alarms;
  if (first === undefined) return null;
  const told = alarms.map((alarm) => alarm.text).join(" ");
  return (
    <Link href={first.href} className="alarm-mark" title={told} aria-label={`Needs a look: ${told}`}>
      !
    </Link>
  );
}
