/** The used part of a Map and of a WeakMap. */
interface Store<K, V> {
  has(key: K): boolean;
  get(key: K): V | undefined;
  set(key: K, value: V): unknown;
}

/** The value of a key, made on first use. */
export function valueAt<K, V>(known: Store<K, V>, key: K, make: (key: K) => V): V {
  if (!known.has(key)) known.set(key, make(key));
  return known.get(key) as V;
}

/** Return the same function, which computes each result once. */
export function remembered<K, V>(make: (key: K) => V): (key: K) => V {
  const known = new Map<K, V>();
  return (key) => valueAt(known, key, make);
}

/** The same of objects, as long as they live. */
export function perObject<K extends object, V>(make: (key: K) => V): (key: K) => V {
  const known = new WeakMap<K, V>();
  return (key) => valueAt(known, key, make);
}

/** The item with the least cost, the first of several; null if none costs at most `most`. */
export function leastBy<T>(
  items: Iterable<T>,
  costOf: (item: T) => number,
  most = Number.POSITIVE_INFINITY,
): T | null {
  let best: T | null = null;
  let least = Number.POSITIVE_INFINITY;
  for (const item of items) {
    const cost = costOf(item);
    if (cost < least && cost <= most) [best, least] = [item, cost];
  }
  return best;
}

/** Return the same function, which keeps its last result while its arguments stay the same. */
export function whileSame<A extends readonly unknown[], R>(
  make: (...given: A) => R,
): (...given: A) => R {
  let last: { given: A; result: R } | null = null;
  return (...given) => {
    if (!last?.given.every((one, i) => one === given[i])) last = { given, result: make(...given) };
    return last.result;
  };
}

/** Items by key, in their order; those without a key are left out. */
export function listsBy<T, K>(
  items: Iterable<T>,
  keyOf: (item: T) => K | null | undefined,
): Map<K, T[]> {
  const lists = new Map<K, T[]>();
  for (const item of items) {
    const key = keyOf(item);
    if (key !== null && key !== undefined) valueAt(lists, key, () => []).push(item);
  }
  return lists;
}
