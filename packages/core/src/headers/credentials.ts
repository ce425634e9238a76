/** User information of a URL, and values of the parameters in which credentials are written. */
const userInfo = /(\/\/)[^/?#\s"'<>]*@/g;
/** The same where the scheme was left out: a name, a colon and a password. */
const bareUserInfo = /(^|[\s"'=])[^\s"'=/:@]{1,200}:[^\s"'/@]{1,200}@(?=[\w[])/g;
const parameters =
  /\b(account_?key|api_?key|client_?secret|password|pwd|secret|secret_?access_?key|shared_?access_?(?:key|signature)|sig|token|x-amz-(?:credential|security-token|signature))=[^&;\s"']+/gi;

/** A text without the credentials of URLs, query parameters and connection strings, for messages and logs. */
export function withoutCredentials(text: string): string {
  return text.replace(userInfo, "$1…@").replace(bareUserInfo, "$1…@").replace(parameters, "$1=…");
}
