interface Props {
  query: { hasNextPage: boolean; isFetchingNextPage: boolean; fetchNextPage(): unknown };
  label: string;
}

/** The foot of a list that goes on. */
export function More({ query, label }: Props) {
  if (!query.hasNextPage) return null;
  return (
    <footer className="more">
      <button type="button" disabled={query.isFetchingNextPage} onClick={() => void query.fetchNextPage()}>
        {query.isFetchingNextPage ? "Loading" : label}
      </button>
    </footer>
  );
}
