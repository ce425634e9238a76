/** Control and direction characters, and line separators: what could hide text, reorder it or begin a new line. */
const unprintable = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu;

/**
 * A text of another party for a message, on one line: every character that is not seen as itself is shown as `\u{202e}`, and of
 * more than `maxLength` characters only the beginning is left.
 */
export function excerpt(text: string, maxLength = 300): string {
  const beginning = text.length > maxLength ? `${text.slice(0, maxLength).trimEnd()}…` : text;
  return beginning.replace(unprintable, (char) => `\\u{${char.codePointAt(0)!.toString(16)}}`);
}

/** User information of a URL, and values of the parameters in which credentials are written. */
const userInfo = /(\/\/)(?:[^/?#\s"'<>]*|[^/?#\s"'<>:]{0,200}:(?!\d{1,5}[/?#])[^\s"'<>]{1,200})@/g;
/** The same where the scheme was left out: a name, a colon and a password. */
const bareUserInfo = /(^|[\s"'=])[^\s"'=/:@]{1,200}:[^\s"'/@]{1,200}@(?=[\w[])/g;
const parameters =
  /\b((?:[\w.-]{0,64}[_.-])?(?:account_?key|api_?key|client_?secret|credential|password|pwd|secret|(?:secret_?|shared_?)access_?key|sharedaccesssignature|sig|signature|token))=[^&;\s"']+/gi;

/** A text without the credentials of URLs, query parameters and connection strings, for messages and logs. */
export function withoutCredentials(text: string): string {
  return text.replace(userInfo, "$1…@").replace(bareUserInfo, "$1…@").replace(parameters, "$1=…");
}
