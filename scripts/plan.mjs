// Decides what set-up has to do, from a description of the machine. No side effects, so that the tests cover machines
// other than the one they run on.
import { DEBIAN_PACKAGES, TARGET } from "./wasm-toolchain.mjs";

/** Open MPI, and what the binding to it is generated with. */
const MPI_PACKAGES = ["openmpi-bin", "libopenmpi-dev", "clang", "libclang-dev"];

/** The fields of an os-release file. */
export function parseOsRelease(text) {
  return Object.fromEntries([...text.matchAll(/^(\w+)="?([^"\n]*)"?$/gm)].map(([, key, value]) => [key, value]));
}

/** Whether version `a` is older than `b`, comparing the numbers between dots. */
export function isOlder(a, b) {
  const [x, y] = [a, b].map((version) => version.split(".").map((part) => Number.parseInt(part, 10)));
  const i = y.findIndex((part, index) => part !== (x[index] ?? 0));
  return i >= 0 && (x[i] ?? 0) < y[i];
}

/**
 * What to install and what to tell.
 *
 * `machine` has `platform` (Node's name), `osRelease` (its fields), whether there is `apt`, a `linker`, the Vulkan
 * `loader`, a `gpu` with a Vulkan driver, the software adapters `lavapipe` and `swiftshader`, the browsers `chromium`
 * and `firefox`, an `mpi` to build for, a Rust toolchain for `wasm`, and `mesaVersion` where dpkg knows one. `goals` are to build for the
 * `web` and to `test`; to run natively always is one. The result's `steps` are `{ packages, why, needed, backports }`:
 * a step that is not `needed` only makes things better, and `backports` is the release whose backports suite is asked
 * first. `advice` is for the person, where there is no package that we could install.
 */
export function plan(machine, goals) {
  const steps = [];
  const advice = [];
  const { ID: id } = machine.osRelease;

  if (!machine.linker) {
    if (machine.apt) steps.push({ packages: ["gcc", "libc6-dev"], why: "Rust needs a C linker", needed: true });
    else if (machine.platform === "linux") advice.push("Rust needs a C linker: install gcc");
    else if (machine.platform === "darwin") advice.push("Rust needs a linker: run `xcode-select --install`");
  }
  if (machine.platform === "linux") planVulkan(machine, goals, steps, advice);

  const lacksChromium = goals.test && (!machine.chromium || (machine.platform === "linux" && !machine.swiftshader));
  const lacksFirefox = goals.test && !machine.firefox;
  // Ubuntu's packages only point to snaps, which keep their files where no other program can open them.
  const form = machine.apt ? "its maker's .deb" : "it";
  if (lacksChromium && machine.apt && id !== "ubuntu") {
    const why = "the tests drive it, and its SwiftShader is their second adapter";
    steps.push({ packages: ["chromium"], why, needed: true });
  } else if (lacksChromium) {
    advice.push(`the tests need Google Chrome and its SwiftShader: install ${form}`);
  }
  if (lacksFirefox && machine.apt && id === "debian") {
    steps.push({ packages: ["firefox-esr"], why: "the tests drive it", needed: true });
  } else if (lacksFirefox) {
    advice.push(`the tests need Firefox: install ${form}`);
  }

  // Elsewhere the tests of several processes are not run.
  if (goals.test && machine.platform === "linux" && !machine.mpi) {
    const why = "the tests start several processes through MPI";
    if (machine.apt) steps.push({ packages: MPI_PACKAGES, why, needed: true });
    else advice.push(`${why}: install Open MPI with what it takes to build for it, and libclang`);
  }

  if (goals.web && !machine.wasm) {
    const why = `Rust has no standard library for ${TARGET}`;
    if (machine.apt && id === "debian") steps.push({ packages: DEBIAN_PACKAGES, why, needed: true });
    else advice.push(`${why}: run \`rustup target add ${TARGET}\``);
  }
  return { steps, advice };
}

/** Adds what is missing for Vulkan on Linux. */
function planVulkan(machine, goals, steps, advice) {
  const { ID: id, VERSION_ID: version } = machine.osRelease;
  const usesLavapipe = goals.test || !machine.gpu;
  if (!machine.apt) {
    const lacks = !machine.loader || (usesLavapipe && !machine.lavapipe);
    if (lacks) advice.push(`a Vulkan driver is missing: ${vulkanAdvice(machine.osRelease)}`);
    return;
  }
  // Debian 12's own Mesa is 22.3, whose software adapter takes 5 to 10 times as long on our kernels.
  const backports = id === "debian" && version === "12" ? "bookworm" : undefined;
  const mesa = { packages: ["libvulkan1", "mesa-vulkan-drivers"], backports };
  if (usesLavapipe && !machine.lavapipe) {
    const why = goals.test ? "the tests need Mesa's software adapter" : "no GPU with a Vulkan driver found";
    steps.push({ ...mesa, why, needed: true });
  } else if (usesLavapipe && backports && machine.mesaVersion && isOlder(machine.mesaVersion, "25.0")) {
    const why = `Mesa ${machine.mesaVersion} is slow without a GPU, ${backports}-backports has a faster one`;
    steps.push({ ...mesa, why, needed: !machine.loader });
  } else if (!machine.loader) {
    steps.push({ packages: ["libvulkan1"], why: "the Vulkan loader is missing", needed: true });
  }
}

/** What to install for Vulkan on a distribution without apt. */
function vulkanAdvice({ ID: id = "", ID_LIKE: like = "" }) {
  const family = `${id} ${like}`;
  if (/fedora|rhel/.test(family)) return "`sudo dnf install vulkan-loader mesa-vulkan-drivers`";
  if (/arch/.test(family)) return "`sudo pacman -S vulkan-icd-loader vulkan-swrast`, or your GPU's, e.g. vulkan-radeon";
  if (/suse/.test(family)) return "`sudo zypper install libvulkan1 libvulkan_lvp`";
  return "install the Vulkan loader and your GPU's driver, or Mesa's lavapipe";
}
