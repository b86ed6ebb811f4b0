// Starts real browsers: Chromium, whose WebGPU adapter here is SwiftShader, and Firefox on Mesa's lavapipe.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { chromium } from "playwright-core";
import puppeteer from "puppeteer-core";
import { findBrowsers } from "../../scripts/browsers.mjs";
import { findDrivers } from "../../scripts/drivers.mjs";

/** A name for the loopback interface that no browser takes for a secure origin. */
export const INSECURE_HOST = "insecure.test";

/** Firefox must not look for anything outside while a test runs. */
const QUIET = {
  "app.normandy.enabled": false,
  "app.update.auto": false,
  "browser.region.update.enabled": false,
  "browser.safebrowsing.downloads.enabled": false,
  "browser.safebrowsing.malware.enabled": false,
  "browser.safebrowsing.phishing.enabled": false,
  "datareporting.healthreport.uploadEnabled": false,
  "extensions.getAddons.cache.enabled": false,
  "media.gmp-manager.url": "",
  "network.captive-portal-service.enabled": false,
  "network.connectivity-service.enabled": false,
  "services.settings.server": "data:,#remote-settings-dummy/v1",
  "toolkit.telemetry.enabled": false,
};

function found(browser) {
  const path = findBrowsers()[browser];
  if (!path) throw new Error(`${browser} is not installed; \`node scripts/setup.mjs --test\` says how to get it`);
  return path;
}

/** Chromium; with `webgpu` it has its software adapter. `wasmPages`: the most memory that wasm gets, in 64 KiB. */
export async function launchChromium({ webgpu, wasmPages }) {
  const args = [`--host-resolver-rules=MAP ${INSECURE_HOST} 127.0.0.1`, "--disable-background-networking"];
  if (webgpu) args.push("--enable-unsafe-webgpu", "--use-webgpu-adapter=swiftshader");
  if (wasmPages) args.push(`--js-flags=--wasm-max-mem-pages=${wasmPages}`);
  return chromium.launch({ executablePath: found("chromium"), args });
}

/** What test drivers tell Chromium so that a hidden tab is as fast as others. */
const KEEP_AWAKE = ["--disable-background-timer-throttling", "--disable-backgrounding-occluded-windows", "--disable-renderer-backgrounding"];

/** Chromium whose tabs are hidden when another is in front, and sleep then as they do for people, but sooner. */
export async function launchSleepyChromium() {
  return puppeteer.launch({
    executablePath: found("chromium"),
    ignoreDefaultArgs: KEEP_AWAKE,
    args: [
      "--no-sandbox",
      "--disable-background-networking",
      "--enable-unsafe-webgpu",
      "--use-webgpu-adapter=swiftshader",
      "--enable-features=IntensiveWakeUpThrottling:grace_period_seconds/5",
    ],
  });
}

/** Firefox; `prefs` turn WebGPU on, or not. */
export async function launchFirefox({ prefs }) {
  const [driver] = findDrivers().lavapipe;
  const folder = mkdtempSync(join(tmpdir(), "wgpu-bert-firefox-"));
  const browser = await puppeteer.launch({
    browser: "firefox",
    executablePath: found("firefox"),
    userDataDir: folder,
    // How long a test may take is for the test to say.
    protocolTimeout: 0,
    env: { ...process.env, XDG_RUNTIME_DIR: folder, ...(driver && { VK_DRIVER_FILES: driver, VK_ICD_FILENAMES: driver }) },
    extraPrefsFirefox: { ...QUIET, "network.dns.localDomains": INSECURE_HOST, ...prefs },
  });
  return {
    newPage: () => browser.newPage(),
    close: async () => {
      await browser.close();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** What Firefox needs for an adapter on Linux. */
export const FIREFOX_WEBGPU = { "dom.webgpu.enabled": true, "gfx.webgpu.ignore-blocklist": true };
