/** The element of the page with this id. */
export function byId(id: string): HTMLElement {
  return document.getElementById(id) as HTMLElement;
}

/** Makes an element. Text is text: nothing of it becomes markup. */
export function make<Tag extends keyof HTMLElementTagNameMap>(
  tag: Tag,
  attributes: Readonly<Record<string, string>> = {},
  ...children: readonly (Node | string)[]
): HTMLElementTagNameMap[Tag] {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

/** Shows a message in its place, or takes it away. */
export function tell(element: HTMLElement, text: string | undefined): void {
  element.hidden = text === undefined;
  element.textContent = text ?? "";
}

/** Says something to users who cannot see the page. */
export function announce(text: string): void {
  const status = byId("status");
  // the same sentence twice is heard once, so the place is emptied first
  status.textContent = "";
  setTimeout(() => (status.textContent = text), 50);
}
