import { Link } from "wouter";
import { Empty } from "../components/State";

/** No such page. */
export function NotFoundPage() {
  return (
    <>
      <title>Not found · Agent RFT</title>
      <Empty title="There is nothing here">
        <Link href="/">All jobs</Link>
      </Empty>
    </>
  );
}
