interface Entry<T> {
  readonly object: T;
  users: number;
}

/** Objects of the wasm module that the page knows by numbers. */
export class Kept<T extends { free(): void }> {
  readonly #entries = new Map<number, Entry<T>>();
  readonly #gone: string;
  // Numbers of a worker that broke down mean nothing to the next one, which starts later.
  #last = Date.now();

  /** `gone`: what is wrong with a number that no object has any more. */
  constructor(gone: string) {
    this.#gone = gone;
  }

  keep(object: T): number {
    this.#entries.set(++this.#last, { object, users: 0 });
    return this.#last;
  }

  /** Calls `use` with an object, which is not freed meanwhile. */
  async use<R>(id: number, use: (object: T) => R | Promise<R>): Promise<R> {
    const entry = this.#entries.get(id);
    if (!entry) throw new Error(this.#gone);
    entry.users++;
    try {
      return await use(entry.object);
    } finally {
      entry.users--;
      if (!this.#entries.has(id)) this.#free(entry);
    }
  }

  /** Frees an object as soon as nobody uses it; once is enough. */
  close(id: number): void {
    const entry = this.#entries.get(id);
    this.#entries.delete(id);
    if (entry) this.#free(entry);
  }

  #free({ object, users }: Entry<T>): void {
    if (users === 0) object.free();
  }
}
