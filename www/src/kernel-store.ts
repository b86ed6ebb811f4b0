// Which kernels were measured fastest, in a file of the browser's private file system (OPFS). Where there is none, as in
// private windows and in Node, each worker measures for itself.
const FILE = "wgpu-bert-kernels.json";

export const kernelStore = {
  async read(): Promise<string> {
    const file = await (await navigator.storage.getDirectory()).getFileHandle(FILE);
    return (await file.getFile()).text();
  },

  /** Rejects while another tab writes, whose measurement is as good. */
  async write(text: string): Promise<void> {
    const handle = await (await navigator.storage.getDirectory()).getFileHandle(FILE, { create: true });
    const file = await handle.createSyncAccessHandle();
    try {
      file.truncate(0);
      file.write(new TextEncoder().encode(text));
      file.flush();
    } finally {
      file.close();
    }
  },
};
