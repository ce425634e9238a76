import { ProtocolErrorCode } from "@modelcontextprotocol/client";
import { z } from "zod";
import { SluiceError } from "@sluice/core";
import { decodeAnyBase64, EXTENSION_ID, isSameResource } from "@sluice/core/internal";
import { callServer } from "./call-server.ts";
import type { ClientConnection } from "./connect.ts";
import { Advice, answerOrigin, fault } from "../terminal/failure.ts";
import { listResources, resourcelessFault } from "./list-resources.ts";
import { printable } from "../terminal/print.ts";

/** The content of a resource that came in one message. */
interface ReadContent {
  readonly bytes: Uint8Array;
  /** `length`: the server lists this size · `none`: it lists none. */
  readonly verified: "length" | "none";
}

/** Looser than that of the SDK, which takes base64 in one spelling. */
const readResult = z.object({
  contents: z.array(
    z.object({ uri: z.string(), text: z.string().optional(), blob: z.string().optional() }),
  ),
});

/** Entries of the list that are looked through for the size of a resource. */
const maxListed = 10_000;

/** True for a server that declares `resources/stream`: no other is asked for it. */
export function declaresStreaming({ client }: ClientConnection): boolean {
  const { extensions = {} } = client.getServerCapabilities() ?? {};
  return Object.hasOwn(extensions, EXTENSION_ID);
}

/**
 * Reads a resource with `resources/read`: text as UTF-8, or base64. The response is at most 16 MiB. Throws `too_large` beyond
 * `maxSize`, `corrupt` for another size than the one in the list, `protocol` for anything but the one content. `listed` is what the
 * list has of it, if that was read.
 */
export async function readResource(
  connection: ClientConnection,
  uri: string,
  maxSize: number,
  listed?: { readonly size?: number | undefined },
): Promise<ReadContent> {
  const { client, server, signal } = connection;
  const name = JSON.stringify(uri);
  const reading = callServer(connection, () =>
    client.request({ method: "resources/read", params: { uri } }, readResult, { signal }),
  );
  const { contents } = await reading.catch((error: unknown) => {
    if (!SluiceError.is(error)) throw error;
    const isAnswer = error.origin === answerOrigin;
    if (!isAnswer && error.code !== "protocol") throw error;
    if (absentCodes.has(codeIn(error)))
      throw new SluiceError("not_found", `${server} has no resource ${name}`, { cause: error });
    const resourceless = resourcelessFault(connection);
    if (resourceless) throw resourceless;
    if (isAnswer) throw error;
    if (codeIn(error) === ProtocolErrorCode.MethodNotFound)
      throw fault("unsupported", `${server} does not know resources/read`, "ask its operator");
    throw new Advice(error, "only a server that streams gives what is larger than one message");
  });
  const [content, another] = contents;
  if (!content || another || !isSameResource(content.uri, uri))
    throw fault(
      "protocol",
      `${server} answers with ${contents.length} contents, not only with ${name}`,
      "ask for one of the resources that `sluice ls` prints",
    );
  const { text, blob } = content;
  const bytes =
    text === undefined ? blob !== undefined && decodeAnyBase64(blob) : Buffer.from(text);
  if (!bytes) throw new SluiceError("protocol", `${server} sends ${name} as malformed base64`);
  if (bytes.length > maxSize)
    throw new SluiceError("too_large", `${name} has ${bytes.length} bytes, more than ${maxSize}`);
  const listedBytes = listed ? listed.size : await listedSize(connection, uri);
  if (listedBytes !== undefined && listedBytes !== bytes.length)
    throw new SluiceError(
      "corrupt",
      `${printable(uri)} came with ${bytes.length} bytes, and the server lists ${listedBytes}`,
    );
  return { bytes, verified: listedBytes === undefined ? "none" : "length" };
}

/** Numbers of "no such resource" in the two revisions. */
const absentCodes: ReadonlySet<unknown> = new Set([-32002, -32602]);

function codeIn({ cause }: SluiceError): unknown {
  return (cause as { readonly code?: unknown } | undefined)?.code;
}

async function listedSize(connection: ClientConnection, uri: string): Promise<number | undefined> {
  let readBytes = 0;
  try {
    for await (const resource of listResources(connection)) {
      if (isSameResource(resource.uri, uri)) return resource.size;
      readBytes += 1;
      if (readBytes >= maxListed) return undefined;
    }
  } catch (error) {
    connection.signal.throwIfAborted();
    if (!SluiceError.is(error)) throw error;
  }
  return undefined;
}
