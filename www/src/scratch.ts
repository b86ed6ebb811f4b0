// Room for what the wasm module cannot keep in memory: files in the browser's private file system (OPFS), in a folder that
// is removed when it is no longer used, or by the next worker where this one was killed:
//
//     wgpu-bert-scratch/<number>/0 … 3
//
// Where there is no such file system, as in private windows and in Node, it is memory, up to a limit.

const ROOT = "wgpu-bert-scratch";
/** Text takes three files while it is read, and its examples one. They can be opened only when nobody computes. */
const FILES = 4;
const MEBIBYTE = 2 ** 20;
const LIMIT = 256 * MEBIBYTE;
const WHY = "there is no private file system here: a private window, an insecure page, or Node";

/** Bytes that are written one behind the other and read anywhere. */
export interface ScratchFile {
  append(bytes: Uint8Array): void;
  /** Fills `into` with what was appended from `at` on. */
  read(at: number, into: Uint8Array): void;
}

/** Intermediate files, as long as they are needed. */
export interface Scratch {
  /** What it is called in messages. */
  readonly name: string;
  /** Bytes there is room for, if the browser tells. */
  readonly available: number | undefined;
  /** A file that nobody has yet. */
  take(): ScratchFile;
  close(): Promise<void>;
}

export async function openScratch(): Promise<Scratch> {
  return (await StoredScratch.open()) ?? new MemoryScratch();
}

class StoredScratch implements Scratch {
  readonly name = "the browser's storage";
  readonly available: number | undefined;
  readonly #root: FileSystemDirectoryHandle;
  readonly #folder: string;
  readonly #handles: FileSystemSyncAccessHandle[];
  readonly #unlock: () => void;
  #taken = 0;

  private constructor(root: FileSystemDirectoryHandle, folder: string, handles: FileSystemSyncAccessHandle[], available: number | undefined, unlock: () => void) {
    this.#root = root;
    this.#folder = folder;
    this.#handles = handles;
    this.available = available;
    this.#unlock = unlock;
  }

  /** Nothing where the browser has no such files, or none for this page. */
  static async open(): Promise<StoredScratch | undefined> {
    const { storage, locks } = globalThis.navigator ?? {};
    if (!storage?.getDirectory || !locks) return undefined;
    let root: FileSystemDirectoryHandle;
    try {
      root = await (await storage.getDirectory()).getDirectoryHandle(ROOT, { create: true });
    } catch {
      // Private windows of some browsers.
      return undefined;
    }
    await removeLeftovers(root);
    const name = crypto.randomUUID();
    const unlock = await lock(name);
    const folder = await root.getDirectoryHandle(name, { create: true });
    const open = async (_: unknown, file: number): Promise<FileSystemSyncAccessHandle> => (await folder.getFileHandle(String(file), { create: true })).createSyncAccessHandle();
    const handles = await Promise.all(Array.from({ length: FILES }, open));
    const { quota, usage = 0 } = await storage.estimate();
    return new StoredScratch(root, name, handles, quota === undefined ? undefined : Math.max(quota - usage, 0), unlock);
  }

  take(): ScratchFile {
    const handle = this.#handles[this.#taken++];
    if (!handle) throw new Error("wgpu-bert has a bug: too many intermediate files");
    let length = 0;
    return {
      append(bytes) {
        if (handle.write(bytes as Uint8Array<ArrayBuffer>, { at: length }) < bytes.length) throw new Error("the browser's storage is full");
        length += bytes.length;
      },
      read(at, into) {
        if (handle.read(into as Uint8Array<ArrayBuffer>, { at }) < into.length) throw new Error("the browser's storage lost a part of an intermediate file");
      },
    };
  }

  async close(): Promise<void> {
    for (const handle of this.#handles) handle.close();
    await this.#root.removeEntry(this.#folder, { recursive: true }).catch(() => {});
    this.#unlock();
  }
}

/** Takes a lock, which ends with this worker at the latest; gives back how to end it. */
function lock(name: string): Promise<() => void> {
  return new Promise((locked, failed) => {
    const held = (): Promise<void> => new Promise((unlock) => locked(unlock));
    navigator.locks.request(`${ROOT}/${name}`, held).catch(failed);
  });
}

/** Removes what workers left that are gone. */
async function removeLeftovers(root: FileSystemDirectoryHandle): Promise<void> {
  const names: string[] = [];
  for await (const name of root.keys()) names.push(name);
  for (const name of names) {
    await navigator.locks.request(`${ROOT}/${name}`, { ifAvailable: true }, async (isFree) => {
      // What cannot be removed now is tried again by the next one.
      if (isFree) await root.removeEntry(name, { recursive: true }).catch(() => {});
    });
  }
}

class MemoryScratch implements Scratch {
  readonly name = `${LIMIT / MEBIBYTE} MiB of memory (${WHY})`;
  readonly available = LIMIT;
  #used = 0;
  #files: Uint8Array[][] = [];

  take(): ScratchFile {
    const blocks: Uint8Array[] = [];
    this.#files.push(blocks);
    let length = 0;
    return {
      append: (bytes) => {
        this.#used += bytes.length;
        if (this.#used > LIMIT) {
          throw new Error(`this text takes more than ${LIMIT / MEBIBYTE} MiB of memory (${WHY}). Take a smaller text, or a smaller dupeFactor`);
        }
        for (let done = 0; done < bytes.length; ) {
          const start = length % MEBIBYTE;
          if (start === 0) blocks.push(new Uint8Array(MEBIBYTE));
          const part = bytes.subarray(done, done + MEBIBYTE - start);
          blocks.at(-1)?.set(part, start);
          done += part.length;
          length += part.length;
        }
      },
      read: (at, into) => {
        for (let done = 0; done < into.length; ) {
          const start = (at + done) % MEBIBYTE;
          const part = blocks[Math.floor((at + done) / MEBIBYTE)]?.subarray(start, start + into.length - done);
          if (!part) throw new Error("wgpu-bert has a bug: an intermediate file is too short");
          into.set(part, done);
          done += part.length;
        }
      },
    };
  }

  async close(): Promise<void> {
    this.#files = [];
  }
}
