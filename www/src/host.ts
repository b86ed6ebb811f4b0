// What the wasm module calls while it reads text.
import type { ScratchFile, Scratch } from "./scratch.js";

/** Fills `into` with what a file has from `at` on, or throws. */
export type ReadAt = (at: number, into: Uint8Array) => void;

/** Files and workspaces, which the wasm module knows by numbers. */
class Host {
  readonly #files = new Map<number, ReadAt>();
  readonly #workspaces = new Map<number, Scratch>();
  readonly #scratchFiles = new Map<number, { readonly workspace: number; readonly file: ScratchFile }>();
  #last = 0;

  addFile(read: ReadAt): number {
    this.#files.set(++this.#last, read);
    return this.#last;
  }

  removeFile(file: number): void {
    this.#files.delete(file);
  }

  addWorkspace(scratch: Scratch): number {
    this.#workspaces.set(++this.#last, scratch);
    return this.#last;
  }

  async removeWorkspace(number: number): Promise<void> {
    for (const [file, { workspace }] of this.#scratchFiles) if (workspace === number) this.#scratchFiles.delete(file);
    const scratch = this.#workspaces.get(number);
    this.#workspaces.delete(number);
    await scratch?.close();
  }

  // From here on: what the wasm module calls.

  readFile(file: number, at: number, into: Uint8Array): void {
    found(this.#files.get(file))(at, into);
  }

  create(workspace: number): number {
    this.#scratchFiles.set(++this.#last, { workspace, file: found(this.#workspaces.get(workspace)).take() });
    return this.#last;
  }

  append(number: number, bytes: Uint8Array): void {
    found(this.#scratchFiles.get(number)).file.append(bytes);
  }

  readBack(number: number, at: number, into: Uint8Array): void {
    found(this.#scratchFiles.get(number)).file.read(at, into);
  }

  /** Resolves when the messages that wait have been heard. Timers would make it wait. */
  turn(): Promise<void> {
    return new Promise((resolve) => {
      const { port1, port2 } = new MessageChannel();
      port1.onmessage = () => {
        port1.close();
        resolve();
      };
      port2.postMessage(undefined);
    });
  }
}

function found<T>(value: T | undefined): T {
  if (value === undefined) throw new Error("it is closed");
  return value;
}

export const host = new Host();
