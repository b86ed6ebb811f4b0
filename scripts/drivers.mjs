// The Vulkan drivers of this machine: small JSON files ("ICD" files) that tell the Vulkan loader which library to open.
// `VK_DRIVER_FILES=<file>` makes the loader use that one driver only, which is how the tests choose their adapter.
import { existsSync, readdirSync } from "node:fs";
import { homedir } from "node:os";
import { join } from "node:path";

const DRIVER_FOLDERS = [
  "/usr/share/vulkan/icd.d",
  "/usr/local/share/vulkan/icd.d",
  "/etc/vulkan/icd.d",
  join(homedir(), ".local/share/vulkan/icd.d"),
];

// Chromium brings SwiftShader along and keeps its driver file beside the browser.
const BROWSER_PARENTS = ["/usr/lib", "/usr/lib64", "/opt", "/opt/google"];
const SWIFTSHADER_FILE = "vk_swiftshader_icd.json";

/** Names in `folder`, or none when it cannot be read. */
function list(folder) {
  try {
    return readdirSync(folder).sort();
  } catch {
    return [];
  }
}

/**
 * The driver files by what they drive: `lavapipe` (Mesa's software adapter, llvmpipe), `swiftshader`
 * (Chromium's), and `hardware` (everything else).
 */
export function findDrivers({ driverFolders = DRIVER_FOLDERS, browserParents = BROWSER_PARENTS } = {}) {
  const found = { lavapipe: [], swiftshader: [], hardware: [] };
  for (const folder of driverFolders) {
    for (const name of list(folder).filter((name) => name.endsWith(".json"))) {
      const kind = /^lvp_icd/.test(name) ? "lavapipe" : /swiftshader/.test(name) ? "swiftshader" : "hardware";
      found[kind].push(join(folder, name));
    }
  }
  for (const parent of browserParents) {
    for (const name of list(parent).filter((name) => name.startsWith("chrom"))) {
      const file = join(parent, name, SWIFTSHADER_FILE);
      if (existsSync(file)) found.swiftshader.push(file);
    }
  }
  return found;
}

/**
 * Whether a GPU can be opened. A hardware driver file alone says little: Mesa's package brings those of AMD and
 * Intel along wherever it is installed, so the kernel's device node must be there too.
 */
export function hasUsableGpu(drivers = findDrivers()) {
  const node = list("/dev/dri").some((name) => name.startsWith("renderD"));
  return drivers.hardware.length > 0 && (node || ["/dev/nvidia0", "/dev/dxg", "/dev/kgsl-3d0"].some(existsSync));
}
