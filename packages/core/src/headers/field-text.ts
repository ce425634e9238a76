/**
 * Longest header field that is parsed, in characters; a longer one counts as malformed. 16,384, what Node takes
 * for all the fields of a message.
 */
const maxFieldLength = 16_384;

/** The text of a header field that is to be parsed; empty when it is absent or too long. */
export function fieldText(header: string | null | undefined): string {
  return header !== null && header !== undefined && header.length <= maxFieldLength ? header : "";
}

/** RFC 9110 §5.6.2. */
const token = "[!#$%&'*+.^_`|~0-9A-Za-z-]+";
/** The text between the quotes of a quoted string (§5.6.4). */
const quoted = String.raw`(?:[\t !#-\[\]-~\x80-\uffff]|\\[\t -~\x80-\uffff])*`;
const value = `(?:(${token})|"(${quoted})")`;

const tokenForm = new RegExp(token, "y");
/** A parameter, or none, behind its semicolon. */
const parameter = new RegExp(`[\\t ]*;[\\t ]*(?:(${token})=${value})?`, "y");
const spacedParameter = new RegExp(`[\\t ]*;[\\t ]*(?:(${token})[\\t ]*=[\\t ]*${value})?`, "y");

/** The token that begins at `at`; empty when there is none. */
export function readToken(text: string, at = 0): string {
  tokenForm.lastIndex = at;
  return tokenForm.exec(text)?.[0] ?? "";
}

interface ParameterForm {
  /** Blanks may stand around `=`, as in RFC 2616. Default: malformed, as in RFC 9110 §5.6.6. */
  readonly isSpaced?: boolean;
}

/**
 * The parameters from `at` to the end of `text`, which has no blanks there; names in lower case. `undefined` when any is
 * malformed or there twice.
 */
export function readParameters(
  text: string,
  at: number,
  { isSpaced = false }: ParameterForm = {},
): ReadonlyMap<string, string> | undefined {
  const parameters = new Map<string, string>();
  const form = isSpaced ? spacedParameter : parameter;
  form.lastIndex = at;
  while (form.lastIndex < text.length) {
    const found = form.exec(text);
    if (!found) return undefined;
    const [, name, plain, inQuotes = ""] = found;
    if (name === undefined) continue;
    const key = name.toLowerCase();
    if (parameters.has(key)) return undefined;
    parameters.set(key, plain ?? inQuotes.replace(/\\([^])/g, "$1"));
  }
  return parameters;
}
