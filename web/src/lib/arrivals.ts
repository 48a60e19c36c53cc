/** What came to the head of a list since it was loaded. */

interface Entry {
  id: string;
}

interface Head {
  data: readonly Entry[];
  has_more: boolean;
}

export interface Arrivals {
  count: number;
  /** There may be further ones behind those that were counted. */
  isMore: boolean;
}

/** Entries of the head that are not `shown`. `isWhole`: the list has been loaded to its end, so that those behind its
 * last are new, too; else they are its next ones. */
export function arrivalsIn(head: Head, shown: readonly Entry[], isWhole: boolean): Arrivals {
  const known = new Set(shown.map((entry) => entry.id));
  const last = head.data.findLastIndex((entry) => known.has(entry.id));
  const counted = isWhole || last < 0 ? head.data : head.data.slice(0, last);
  const count = counted.filter((entry) => !known.has(entry.id)).length;
  return { count, isMore: count > 0 && count === head.data.length && head.has_more };
}
