const entities: Readonly<Record<string, string>> = {
  "&": "&amp;",
  "<": "&lt;",
  ">": "&gt;",
  '"': "&quot;",
  "'": "&#39;",
};

/** Text that is HTML already. */
export class Html {
  readonly text: string;
  constructor(text: string) {
    this.text = text;
  }
}

/** What may stand in a template: text is escaped, `undefined` and `false` are nothing. */
type TemplateValue = Html | string | number | boolean | undefined | readonly TemplateValue[];

/** Makes HTML. Whatever is put in is text, unless it was made here. Attributes need their quotes. */
export function html(strings: TemplateStringsArray, ...parts: readonly TemplateValue[]): Html {
  return new Html(strings.reduce((text, next, n) => text + escape(parts[n - 1]) + next));
}

function escape(part: TemplateValue): string {
  if (part === undefined || part === false) return "";
  if (part instanceof Html) return part.text;
  if (typeof part === "object") return part.map(escape).join("");
  return String(part).replace(/[&<>"']/g, (sign) => entities[sign]!);
}
