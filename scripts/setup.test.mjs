// Set-up on machines that we are not on. Run by `node --test scripts/setup.test.mjs`.
import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import test from "node:test";
import { backportsSource, parseSources, readSourceFiles } from "./apt-sources.mjs";
import { findDrivers } from "./drivers.mjs";
import { isOlder, parseOsRelease, plan } from "./plan.mjs";
import { countTests } from "./results.mjs";

const debian12 = { ID: "debian", VERSION_ID: "12" };
const fresh = { platform: "linux", osRelease: debian12, apt: true, linker: true, loader: false, gpu: false, lavapipe: false, swiftshader: false, chromium: false, firefox: false, mpi: false, wasm: false };
const complete = { ...fresh, loader: true, lavapipe: true, swiftshader: true, chromium: true, firefox: true, mpi: true, wasm: true, mesaVersion: "25.0.7-2~bpo12+1" };
const native = { test: false, web: false };
const all = { test: true, web: true };
const packages = (machine, goals) => plan(machine, goals).steps.map((step) => step.packages.join(" "));

test("a fresh Debian 12 gets Mesa from backports, and browsers only for tests", () => {
  const compiler = "rustc-web cargo-web rust-web-src";
  const mpi = "openmpi-bin libopenmpi-dev clang libclang-dev";
  assert.deepEqual(packages(fresh, native), ["libvulkan1 mesa-vulkan-drivers"]);
  assert.deepEqual(packages(fresh, { test: false, web: true }), ["libvulkan1 mesa-vulkan-drivers", compiler]);
  assert.deepEqual(packages(fresh, all), ["libvulkan1 mesa-vulkan-drivers", "chromium", "firefox-esr", mpi, compiler]);
  const [mesa, chromium] = plan(fresh, all).steps;
  assert.equal(mesa.backports, "bookworm");
  assert.equal(chromium.backports, undefined);
  assert.ok(mesa.needed && chromium.needed);
});

test("nothing is done where everything is there", () => {
  for (const goals of [native, all]) assert.deepEqual(plan(complete, goals), { steps: [], advice: [] });
});

test("Debian 12's own Mesa is replaced when the software adapter is used, but is not in the way", () => {
  const slow = { ...complete, mesaVersion: "22.3.6-1+deb12u1" };
  const [step, ...rest] = plan(slow, native).steps;
  assert.deepEqual(rest, []);
  assert.equal(step.backports, "bookworm");
  assert.equal(step.needed, false);
  assert.deepEqual(plan({ ...slow, gpu: true }, native).steps, []);
});

test("other Debian and Ubuntu releases use their own Mesa", () => {
  for (const osRelease of [{ ID: "debian", VERSION_ID: "13" }, { ID: "ubuntu", VERSION_ID: "24.04" }, { ID: "linuxmint", VERSION_ID: "22" }]) {
    const { steps } = plan({ ...fresh, osRelease }, native);
    assert.deepEqual(steps.map((step) => [step.packages, step.backports]), [[["libvulkan1", "mesa-vulkan-drivers"], undefined]]);
    assert.deepEqual(plan({ ...complete, osRelease, mesaVersion: "22.3.6" }, all).steps, []);
  }
});

test("Ubuntu has no packages of the browsers, and no Rust of Debian's, which is said", () => {
  const bare = { swiftshader: false, firefox: false, wasm: false };
  const { steps, advice } = plan({ ...complete, osRelease: { ID: "ubuntu", VERSION_ID: "24.04" }, ...bare }, all);
  assert.deepEqual(steps, []);
  assert.match(advice.join(), /Google Chrome.*Firefox.*rustup target add/);
});

test("each browser is installed by itself", () => {
  assert.deepEqual(packages({ ...complete, chromium: false }, all), ["chromium"]);
  assert.deepEqual(packages({ ...complete, swiftshader: false }, all), ["chromium"]);
  assert.deepEqual(packages({ ...complete, firefox: false }, all), ["firefox-esr"]);
});

test("MPI is for tests alone", () => {
  assert.deepEqual(packages({ ...complete, mpi: false }, { test: false, web: true }), []);
  assert.deepEqual(packages({ ...complete, mpi: false }, all), ["openmpi-bin libopenmpi-dev clang libclang-dev"]);
  assert.match(plan({ ...complete, apt: false, mpi: false }, all).advice.join(), /Open MPI/);
});

test("with a GPU only the loader is needed to run, and lavapipe still to test", () => {
  assert.deepEqual(packages({ ...fresh, gpu: true, loader: true }, native), []);
  assert.deepEqual(packages({ ...fresh, gpu: true }, native), ["libvulkan1"]);
  assert.deepEqual(packages({ ...complete, gpu: true, lavapipe: false }, all), ["libvulkan1 mesa-vulkan-drivers"]);
});

test("a missing linker is installed", () => {
  assert.deepEqual(packages({ ...complete, linker: false }, native), ["gcc libc6-dev"]);
});

test("without apt the right packages are named and nothing is installed", () => {
  const advice = (osRelease) => {
    const result = plan({ ...fresh, apt: false, osRelease }, all);
    assert.deepEqual(result.steps, []);
    return result.advice.join("\n");
  };
  assert.match(advice({ ID: "fedora" }), /dnf install vulkan-loader mesa-vulkan-drivers[^]*Chrome[^]*Firefox/);
  assert.match(advice({ ID: "arch" }), /pacman -S vulkan-icd-loader vulkan-swrast/);
  assert.match(advice({ ID: "manjaro", ID_LIKE: "arch" }), /pacman/);
  assert.match(advice({ ID: "opensuse-tumbleweed", ID_LIKE: "opensuse suse" }), /zypper/);
  assert.match(advice({}), /Vulkan loader and your GPU's driver/);
});

test("macOS and Windows need no driver", () => {
  for (const platform of ["darwin", "win32"]) {
    const machine = { ...fresh, platform, osRelease: {}, apt: false };
    assert.deepEqual(plan(machine, native), { steps: [], advice: [] });
    const browsers = { chromium: true, firefox: true, wasm: true };
    assert.deepEqual(plan({ ...machine, ...browsers }, all), { steps: [], advice: [] });
    assert.match(plan(machine, all).advice.join(), /Google Chrome.*Firefox.*rustup target add/);
  }
});

test("versions are compared as numbers", () => {
  assert.ok(isOlder("22.3.6-1+deb12u1", "25.0"));
  assert.ok(isOlder("1.9.0", "1.88"));
  assert.ok(!isOlder("1.88.0", "1.88"));
  assert.ok(!isOlder("25.0.7-2~bpo12+1", "25.0"));
  assert.ok(!isOlder("100.0", "25.0"));
});

test("os-release is read with and without quotes", () => {
  assert.deepEqual(parseOsRelease('ID=debian\nVERSION_ID="12"\nPRETTY_NAME="Debian GNU/Linux 12 (bookworm)"\n'), {
    ID: "debian",
    VERSION_ID: "12",
    PRETTY_NAME: "Debian GNU/Linux 12 (bookworm)",
  });
});

test("the backports suite comes from the mirror that deb822 sources name, with their key", () => {
  const text = `# the mirror next door
Types: deb deb-src
# a comment inside
URIs: http://mirror.example/debian
Suites: bookworm bookworm-updates
Components: main contrib
Signed-By:
 -----BEGIN PGP PUBLIC KEY BLOCK-----
 .
 abc=
 -----END PGP PUBLIC KEY BLOCK-----

Types: deb
URIs: http://mirror.example/debian-security
Suites: bookworm-security
Components: main
`;
  const { configured, extension, text: written } = backportsSource("bookworm", parseSources([{ name: "debian.sources", text }]));
  assert.equal(configured, false);
  assert.equal(extension, "sources");
  assert.equal(
    written,
    `Types: deb
URIs: http://mirror.example/debian
Signed-By:
 -----BEGIN PGP PUBLIC KEY BLOCK-----
 .
 abc=
 -----END PGP PUBLIC KEY BLOCK-----
Suites: bookworm-backports
Components: main
`,
  );
});

test("and from one-line sources, with their options", () => {
  const text = `deb cdrom:[Debian 12]/ bookworm main
# deb http://old.example/debian bookworm main
deb-src http://mirror.example/debian bookworm main
deb [arch=amd64 signed-by=/usr/share/keyrings/k.gpg] https://mirror.example/debian/ bookworm main non-free # ours
`;
  assert.deepEqual(backportsSource("bookworm", parseSources([{ name: "sources.list", text }])), {
    configured: false,
    extension: "list",
    text: "deb [arch=amd64 signed-by=/usr/share/keyrings/k.gpg] https://mirror.example/debian/ bookworm-backports main\n",
  });
});

test("a suite that is there already is not added, and one that is switched off is not there", () => {
  const list = { name: "a.list", text: "deb http://mirror.example/debian bookworm main\ndeb http://mirror.example/debian bookworm-backports main\n" };
  assert.deepEqual(backportsSource("bookworm", parseSources([list])), { configured: true });
  const off = { name: "b.sources", text: "Enabled: no\nTypes: deb\nURIs: http://m.example/debian\nSuites: bookworm bookworm-backports\nComponents: main\n" };
  assert.equal(backportsSource("bookworm", parseSources([off])), undefined);
});

test("files are found where they lie", () => {
  const root = mkdtempSync(join(tmpdir(), "wgpu-bert-setup-"));
  try {
    const write = (path, text = "{}") => {
      mkdirSync(join(root, path, ".."), { recursive: true });
      writeFileSync(join(root, path), text);
    };
    write("icd.d/lvp_icd.x86_64.json");
    write("icd.d/radeon_icd.json");
    write("icd.d/README");
    write("lib/chromium/vk_swiftshader_icd.json");
    mkdirSync(join(root, "lib/chromium-common"));
    assert.deepEqual(findDrivers({ driverFolders: [join(root, "icd.d"), join(root, "none")], browserParents: [join(root, "lib")] }), {
      lavapipe: [join(root, "icd.d/lvp_icd.x86_64.json")],
      hardware: [join(root, "icd.d/radeon_icd.json")],
      swiftshader: [join(root, "lib/chromium/vk_swiftshader_icd.json")],
    });
    write("apt/sources.list.d/z.sources", "z");
    write("apt/sources.list.d/z.sources.bak", "no");
    assert.deepEqual(readSourceFiles(join(root, "apt")).map((file) => file.text), ["z"]);
    write("apt/sources.list", "first");
    assert.deepEqual(readSourceFiles(join(root, "apt")).map((file) => file.text), ["first", "z"]);
  } finally {
    rmSync(root, { recursive: true });
  }
});

test("closing lines of cargo's and Node's test runners are added up", () => {
  const output = `running 3 tests
test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.01s
test a ... ok
test result: FAILED. 4 passed; 1 failed; 2 ignored; 0 measured; 0 filtered out; finished in 1.50s
`;
  assert.deepEqual(countTests(output), { passed: 7, failed: 1, ignored: 2 });
  const node = "✔ a (1ms)\nℹ tests 9\nℹ pass 5\nℹ fail 1\nℹ cancelled 1\nℹ skipped 1\nℹ todo 1\nℹ duration_ms 3.5\n";
  assert.deepEqual(countTests(node), { passed: 5, failed: 2, ignored: 2 });
  assert.deepEqual(countTests(output + node), { passed: 12, failed: 3, ignored: 4 });
});
