// The browsers of this machine that the tests drive.
import { existsSync } from "node:fs";

const PLACES = {
  chromium: [
    "/usr/bin/chromium",
    "/usr/bin/chromium-browser",
    "/opt/google/chrome/chrome",
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    "C:\\Program Files\\Google\\Chrome\\Application\\chrome.exe",
  ],
  firefox: [
    "/usr/bin/firefox-esr",
    "/usr/bin/firefox",
    "/Applications/Firefox.app/Contents/MacOS/firefox",
    "C:\\Program Files\\Mozilla Firefox\\firefox.exe",
  ],
};

/** Where `chromium` (or Chrome) and `firefox` are, each `undefined` when it is not there. */
export function findBrowsers() {
  return Object.fromEntries(Object.entries(PLACES).map(([name, places]) => [name, places.find(existsSync)]));
}
