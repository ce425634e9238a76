import { html, type Html } from "@sluice/server/internal";

/**
 * What a reader of a name cannot see, or takes for something else: control and formatting characters, fillers, spaces but for a
 * single one inside of the name, and signs that look like a slash.
 */
const unseen =
  /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}\u2800\u2044\u2215\u29f8\uff0f]|(?! )\p{Zs}|^ | $|(?<= ) /gu;

/** Join letters of other scripts, or choose the form of an emoji. */
const joiners: ReadonlySet<string> = new Set(["\u200c", "\u200d", "\ufe0e", "\ufe0f"]);

/** A name that reads as no other one: what cannot be seen in it is shown by its code point, and its direction ends with it. */
export function nameHtml(name: string): Html {
  const parts = pieces(name).map(({ text, code }) =>
    code === undefined ? html`${text}` : html`${text}<span class="code">${code}</span>`,
  );
  return html`<bdi>${parts}</bdi>`;
}

/** The same as text, for attributes and titles. */
export function nameText(name: string): string {
  return pieces(name)
    .map(({ text, code }) => (code === undefined ? text : `${text}[${code}]`))
    .join("");
}

/** The parts of a name, each with what comes behind it and cannot be seen. */
function pieces(name: string): { readonly text: string; readonly code?: string }[] {
  const found = [];
  let end = 0;
  for (const { 0: sign, index } of name.matchAll(unseen)) {
    if (joiners.has(sign) && isJoined(name, index)) continue;
    const code = `U+${sign.codePointAt(0)!.toString(16).toUpperCase().padStart(4, "0")}`;
    found.push({ text: name.slice(end, index), code });
    end = index + sign.length;
  }
  return [...found, { text: name.slice(end) }];
}

/** Whether a joiner stands where it has an effect: behind a letter that is not Latin, or a symbol. */
function isJoined(name: string, index: number): boolean {
  return /[^\p{Script=Latin}\p{ASCII}\p{Default_Ignorable_Code_Point}]$/u.test(
    name.slice(0, index),
  );
}

/** The extension of a name as a short mark; empty if it has none of one to four letters and digits. */
export function extensionMark(name: string): string {
  return /.\.([a-z0-9]{1,4})$/i.exec(name)?.[1]?.toUpperCase() ?? "";
}
