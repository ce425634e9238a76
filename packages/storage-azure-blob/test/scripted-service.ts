import type { IncomingMessage, ServerResponse } from "node:http";
import type { ContainerClient } from "@azure/storage-blob";
import { account, clientFor } from "./azurite.ts";
import { type Answer, type HttpService, startHttpService } from "./http-service.ts";

/** A service whose answers the test gives: for calls that Azurite lacks, or answers otherwise than Azure. */
export interface ScriptedService extends HttpService {
  /** A client of a container there. */
  readonly container: ContainerClient;
}

export async function startScriptedService(answer: Answer): Promise<ScriptedService> {
  const service = await startHttpService(answer);
  return { ...service, container: clientFor(`${service.url}/${account}/docs`) };
}

/** A listed blob. */
interface Listed {
  readonly name: string;
  readonly size?: number;
  readonly properties?: string;
  readonly metadata?: string;
}

/** Answers with one page of a listing; `next` is the marker of the following one. */
export function answerPage(response: ServerResponse, blobs: readonly Listed[], next = ""): void {
  const items = blobs.map(
    ({ name, size = 1, properties = "", metadata = "" }) =>
      `<Blob>${name.startsWith("<") ? name : `<Name>${name}</Name>`}<Properties><Last-Modified>Thu, 01 Jan 2026 00:00:00 GMT</Last-Modified>` +
      `<Etag>0x1</Etag><Content-Length>${size}</Content-Length><BlobType>BlockBlob</BlobType>${properties}</Properties>` +
      `<Metadata>${metadata}</Metadata></Blob>`,
  );
  response.setHeader("content-type", "application/xml");
  response.end(
    `<?xml version="1.0" encoding="utf-8"?><EnumerationResults ContainerName="docs">` +
      `<Blobs>${items.join("")}</Blobs><NextMarker>${next}</NextMarker></EnumerationResults>`,
  );
}

/** Reads a request to its end; nothing of it is kept. */
export async function drain(request: IncomingMessage): Promise<number> {
  let bytes = 0;
  for await (const part of request) bytes += (part as Buffer).byteLength;
  return bytes;
}
