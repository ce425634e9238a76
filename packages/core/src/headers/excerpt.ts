/**
 * Control and direction characters, and line separators: characters that could hide text, reorder
 * it or begin a new line.
 */
const unprintable = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu;

/**
 * A text of another party for a message, on one line: every character that is not seen as itself is shown as `\u{202e}`, and of
 * more than `maxLength` characters only the beginning is left.
 */
export function excerpt(text: string, maxLength = 300): string {
  const beginning = text.length > maxLength ? `${text.slice(0, maxLength).trimEnd()}…` : text;
  return beginning.replace(unprintable, (char) => `\\u{${char.codePointAt(0)!.toString(16)}}`);
}

/** Text before the value of a parameter that is a credential. */
const secretName =
  /(?:\b|_)(?:(?:account|api|access)_?key|(?:client_?)?secret|credential|password|pwd|(?:secret|shared)_?access_?key|(?:sharedaccess)?signature|sig|token)=/i;

/** A text without the credentials of URLs, query parameters and connection strings, for messages and logs. */
export function withoutCredentials(text: string): string {
  return text.replace(/[^\s"'<>]+/g, withoutUserInfo).replace(/[^&;\s"']+/g, withoutSecret);
}

function withoutSecret(parameter: string): string {
  const name = secretName.exec(parameter);
  if (!name) return parameter;
  const value = name.index + name[0].length;
  return value < parameter.length ? `${parameter.slice(0, value)}…` : parameter;
}

function withoutUserInfo(word: string): string {
  const [first = "", ...authorities] = word.split("//");
  return [withoutBareUserInfo(first), ...authorities.map(withoutUserInfoOf)].join("//");
}

/** The part of a URL behind `//`, without its user information. */
function withoutUserInfoOf(authority: string): string {
  const [host = ""] = authority.split(/[/?#]/, 1);
  // a password may hold any of these signs; a port ends with one
  const mayEndLater = host.includes(":") && !/^[^:]*:\d{1,5}[/?#]/.test(authority);
  const at =
    host.includes("@") || !mayEndLater ? host.lastIndexOf("@") : authority.lastIndexOf("@");
  return at === -1 ? authority : `…${authority.slice(at)}`;
}

/** The same where the scheme was left out: a name, a colon and a password, at the start or as a value. */
function withoutBareUserInfo(word: string): string {
  const at = word.indexOf("@");
  if (at === -1 || !/[\w[]/.test(word.charAt(at + 1))) return word;
  const slash = word.lastIndexOf("/", at);
  const start = slash === -1 ? 0 : word.indexOf("=", slash) + 1;
  if (start <= slash) return word;
  const colon = word.indexOf(":", start);
  const name = Math.max(start, word.lastIndexOf("=", colon) + 1);
  return name < colon && colon < at - 1 ? `${word.slice(0, name)}…${word.slice(at)}` : word;
}
