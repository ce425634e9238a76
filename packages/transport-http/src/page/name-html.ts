import { html, type Html } from "@sluice/server/internal";

/**
 * What a reader of a name cannot see, or takes for something else: control and formatting characters, fillers, spaces but for a
 * single one inside of the name, signs that look like a slash, and the beginning of what looks like a code of these.
 */
const unseen =
  /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}\u2800\u2044\u2215\u29f8\uff0f]|(?! )\p{Zs}|^ | $|(?<= ) |[Uu](?=\+[\dA-Fa-f]{4})/gu;

// letters of the scripts that a joiner shapes
const endsShaped =
  /[\p{Script=Arabic}\p{Script=Syriac}\p{Script=Nko}\p{Script=Mongolian}\p{Script=Devanagari}\p{Script=Bengali}\p{Script=Gurmukhi}\p{Script=Gujarati}\p{Script=Oriya}\p{Script=Tamil}\p{Script=Telugu}\p{Script=Kannada}\p{Script=Malayalam}\p{Script=Sinhala}\p{Script=Khmer}\p{Script=Myanmar}]$/u;
const beginsShaped =
  /^[\p{Script=Arabic}\p{Script=Syriac}\p{Script=Nko}\p{Script=Mongolian}\p{Script=Devanagari}\p{Script=Bengali}\p{Script=Gurmukhi}\p{Script=Gujarati}\p{Script=Oriya}\p{Script=Tamil}\p{Script=Telugu}\p{Script=Kannada}\p{Script=Malayalam}\p{Script=Sinhala}\p{Script=Khmer}\p{Script=Myanmar}]/u;

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
    if (isJoined(name, sign, index)) continue;
    const code = `U+${sign.codePointAt(0)!.toString(16).toUpperCase().padStart(4, "0")}`;
    found.push({ text: name.slice(end, index), code });
    end = index + sign.length;
  }
  return [...found, { text: name.slice(end) }];
}

/** Whether a sign has an effect where it stands: it joins letters or emoji, or chooses the form of an emoji. */
function isJoined(name: string, sign: string, index: number): boolean {
  const before = name.slice(0, index);
  const after = name.slice(index + sign.length);
  if (sign === "\ufe0e" || sign === "\ufe0f") return /\p{Extended_Pictographic}$/u.test(before);
  if (sign !== "\u200c" && sign !== "\u200d") return false;
  if (endsShaped.test(before) && beginsShaped.test(after)) return true;
  return (
    sign === "\u200d" &&
    /\p{Extended_Pictographic}\p{Emoji_Modifier}?\ufe0f?$/u.test(before) &&
    /^\p{Extended_Pictographic}/u.test(after)
  );
}

/** The extension of a name as a short mark; empty if it has none of one to four letters and digits. */
export function extensionMark(name: string): string {
  return /.\.([a-z0-9]{1,4})$/i.exec(name)?.[1]?.toUpperCase() ?? "";
}
