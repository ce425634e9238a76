/** The header fields of an answer of Node's HTTP client, also those that it joins or drops itself. */
export function headersOf(rawHeaders: readonly string[]): Headers {
  const headers = new Headers();
  for (let at = 0; at < rawHeaders.length; at += 2) {
    try {
      headers.append(rawHeaders[at] as string, rawHeaders[at + 1] as string);
    } catch {
      // a name or value that no header may have means nothing to us
    }
  }
  return headers;
}
