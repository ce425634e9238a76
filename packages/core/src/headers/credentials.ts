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
