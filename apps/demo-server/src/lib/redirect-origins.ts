/**
 * Reads `SLUICE_REDIRECT_ORIGINS`: the exact origins that redirects may lead to, separated by commas. Empty and absent mean
 * none. Throws a `TypeError` for what is no origin, and for plain HTTP to another machine.
 */
export function readRedirectOrigins(text: string | undefined): readonly string[] {
  const names = (text ?? "").split(",").map((name) => name.trim());
  return names.filter((name) => name !== "").map(toOrigin);
}

function toOrigin(text: string): string {
  const url = URL.canParse(text) ? new URL(text) : undefined;
  const isLocal = url?.hostname === "127.0.0.1" || url?.hostname === "localhost";
  const isSafe = url?.protocol === "https:" || (url?.protocol === "http:" && isLocal);
  // what a URL holds beside its origin may be a secret, so it is not repeated
  if (!url || !isSafe || (text !== url.origin && text !== `${url.origin}/`))
    throw new TypeError(
      "demo-server: SLUICE_REDIRECT_ORIGINS needs origins such as https://acme.s3.eu-west-1.amazonaws.com, separated by commas; http: is for this machine only",
    );
  return url.origin;
}
