/** A request that takes longer has failed. */
const timeoutMs = 30_000;

/** A later page of this folder. A request of this kind parses it, and runs nothing of it. */
export function loadPage(url: string): Promise<Document> {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open("GET", url);
    request.responseType = "document";
    request.timeout = timeoutMs;
    request.addEventListener("loadend", () => {
      const { status, responseXML: page } = request;
      if (status === 200 && page) resolve(page);
      else reject(new Error(`The server answers ${status}.`));
    });
    request.send();
  });
}

/** A link to a file, and what is known of it. */
export interface FileLink {
  readonly url: string;
  /** Unix milliseconds. */
  readonly expiresAt: number;
  readonly mimeType: string;
  readonly size?: number;
}

/** Has the server make a link to the file of a URI. */
export async function requestLink(uri: string, signal: AbortSignal): Promise<FileLink> {
  const limits = AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)]);
  const answer = await fetch(`/?${new URLSearchParams({ link: uri })}`, { signal: limits });
  if (!answer.ok)
    throw new Error(sentences[answer.status] ?? "The server could not read the file.");
  return (await answer.json()) as FileLink;
}

const sentences: Readonly<Record<number, string>> = {
  403: "Load this page again first.",
  404: "The file was moved or deleted.",
  429: "Too many requests: wait a minute.",
};

/** The URI of the file that the link of a row opens. */
export function uriOf(row: HTMLTableRowElement): string {
  return new URL(row.querySelector("a")!.href).searchParams.get("open") ?? "";
}

/** The first bytes of a file, at most as many as asked for. */
export async function loadStart(
  { url, size }: FileLink,
  maxBytes: number,
  signal: AbortSignal,
): Promise<Uint8Array<ArrayBuffer>> {
  if (size === 0) return new Uint8Array();
  const limits = AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)]);
  const headers = { Range: `bytes=0-${maxBytes - 1}` };
  const answer = await fetch(url, { headers, signal: limits });
  if (!answer.ok || !answer.body) throw new Error("The server could not read the file.");
  const reader = answer.body.getReader();
  const bytes = new Uint8Array(maxBytes);
  let length = 0;
  // a server may send all of a file that has no ranges
  while (length < maxBytes) {
    const { done, value } = await reader.read();
    if (done) break;
    const part = value.subarray(0, maxBytes - length);
    bytes.set(part, length);
    length += part.length;
  }
  await reader.cancel();
  return bytes.subarray(0, length);
}
