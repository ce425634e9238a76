import { definedMembers, SluiceError } from "@sluice/core";
import { bodyOf, openBinary, type OpenedBinary } from "./open-binary.ts";

/** The part of an SDK's client that is used, version 1 or 2. */
export interface ReadingClient {
  // the SDKs agree on the call and differ in its types
  // oxlint-disable-next-line typescript/no-explicit-any
  readResource(params: any, options?: any): Promise<{ readonly contents: readonly object[] }>;
}

/** A resource and its bytes. */
export interface BinaryResource extends OpenedBinary {
  readonly uri: string;
}

/**
 * Reads a resource through an SDK client and gives its bytes as a stream: beside the message if the
 * transport negotiated that, else decoded from base64 or text. Rejects with errors of the client
 * and of {@link openBinary}; an answer without contents is `protocol`.
 */
export async function readBinary(
  client: ReadingClient,
  uri: string,
  options: { readonly signal?: AbortSignal } = {},
): Promise<BinaryResource> {
  const { contents } = await client.readResource({ uri, transferMode: "binary" }, options);
  const [content] = contents as { readonly text?: unknown; readonly mimeType?: string }[];
  if (!content)
    throw new SluiceError("protocol", `binary: read ${JSON.stringify(uri)}: no content`);
  const opened = openBinary(content, options);
  if (opened) return { uri, ...opened };
  const bytes = new TextEncoder().encode(String(content.text));
  return definedMembers({
    uri,
    mimeType: content.mimeType,
    size: bytes.length,
    transferMode: "base64" as const,
    body: bodyOf(bytes),
  });
}
