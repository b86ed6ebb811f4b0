// Elements, found and made. Whatever a person or a file says becomes text, never markup.

/** The element of index.html with this id. */
export function find<E extends HTMLElement = HTMLElement>(id: string): E {
  const element = document.getElementById(id);
  if (!element) throw new Error(`index.html has no #${id}`);
  return element as E;
}

/** A new element; strings among its children become text. */
export function make<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  properties: Partial<HTMLElementTagNameMap[K]> = {},
  ...children: (Node | string)[]
): HTMLElementTagNameMap[K] {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children);
  return element;
}

export function makeButton(label: string, onClick: () => void, properties: Partial<HTMLButtonElement> = {}): HTMLButtonElement {
  const button = make("button", { type: "button", ...properties }, label);
  button.addEventListener("click", onClick);
  return button;
}

/** Text for screen readers only. */
export const unseen = (text: string): HTMLElement => make("span", { className: "unseen" }, text);

/** Runs `action` once nothing was asked of it for a while. */
export function debounce(milliseconds: number, action: () => void): () => void {
  let timer: ReturnType<typeof setTimeout> | undefined;
  return () => {
    clearTimeout(timer);
    timer = setTimeout(action, milliseconds);
  };
}

/** Puts nodes in the place of an element's content; where that had the focus, the first control gets it. */
export function replaceContent(element: HTMLElement, nodes: readonly Node[]): void {
  const hadFocus = element.contains(document.activeElement);
  element.replaceChildren(...nodes);
  if (hadFocus) element.querySelector<HTMLElement>("button, input, select")?.focus();
}
