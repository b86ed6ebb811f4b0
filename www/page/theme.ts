// Light or dark: as the system has it, until the reader switches. A script of its own that runs before the first paint.

const KEY = "theme";
const system = matchMedia("(prefers-color-scheme: dark)");
const root = document.documentElement;

/** Storage may be turned off; the switch then lasts as long as the page. */
function remembered(): string | null {
  try {
    return localStorage.getItem(KEY);
  } catch {
    return null;
  }
}

function remember(theme: string | null): void {
  try {
    if (theme) localStorage.setItem(KEY, theme);
    else localStorage.removeItem(KEY);
  } catch {
    // It is as above.
  }
}

const isDark = (): boolean => (root.dataset.theme ? root.dataset.theme === "dark" : system.matches);

const choice = remembered();
if (choice === "light" || choice === "dark") root.dataset.theme = choice;

document.addEventListener("DOMContentLoaded", () => {
  const button = document.getElementById("theme") as HTMLButtonElement;
  const show = (): void => {
    button.setAttribute("aria-pressed", String(isDark()));
    // Whoever paints on a canvas must paint again.
    document.dispatchEvent(new Event("themechange"));
  };
  show();
  system.addEventListener("change", show);
  button.addEventListener("click", () => {
    const dark = !isDark();
    if (dark === system.matches) delete root.dataset.theme;
    else root.dataset.theme = dark ? "dark" : "light";
    remember(root.dataset.theme ?? null);
    show();
  });
});
