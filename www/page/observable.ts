// A value that others watch.

export class Observable<T> {
  #value: T;
  readonly #watchers = new Set<(value: T) => void>();

  constructor(value: T) {
    this.#value = value;
  }

  get value(): T {
    return this.#value;
  }

  set(value: T): void {
    if (Object.is(value, this.#value)) return;
    this.#value = value;
    for (const watcher of this.#watchers) watcher(value);
  }

  /** Calls `watcher` with the value now and each time it is another. */
  watch(watcher: (value: T) => void): void {
    this.#watchers.add(watcher);
    watcher(this.#value);
  }
}
