import { Link } from "wouter";
import { Shell } from "../components/Shell";
import { Empty } from "../components/State";
import { useSession } from "../data/session";

/** No such page. */
export function NotFoundPage() {
  const { signOut } = useSession();
  return (
    <Shell onSignOut={signOut}>
      <Empty title="There is nothing here">
        <Link href="/">All jobs</Link>
      </Empty>
    </Shell>
  );
}
