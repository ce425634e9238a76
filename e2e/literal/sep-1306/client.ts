import { ask } from "../base/http.ts";
import type { Peer } from "../base/http-client.ts";
import { must, type Json, type Message } from "../base/message.ts";
import { declined, part } from "./examples.ts";

/** A file that the user picked. */
export interface Picked {
  readonly name: string;
  readonly type: string;
  readonly bytes: Buffer;
}

/** Files by field; a field that is not there is left empty. */
type Files = Readonly<Record<string, readonly Picked[]>>;

interface Endpoint {
  readonly url: string;
  readonly method: string;
  readonly uploadId: string;
}

/** What the user fills in: files, and text beside them. */
export interface Filled {
  readonly files: Files;
  readonly values?: Json;
}

/** Sections 2 to 5: sends the files, then answers with what was sent. Declines without anything. */
async function answerBinary(peer: Peer, params: Json, filled?: Filled): Promise<Json> {
  must(params["mode"] === "binary", "2: a request for files has the mode binary");
  must(typeof params["message"] === "string", "2: a request has a message");
  const { properties } = params["requestedSchema"] as { properties: Record<string, Json> };
  const endpoints = params["uploadEndpoints"] as Record<string, Endpoint>;
  if (!filled) return declined;
  const { files, values = {} } = filled;
  const content: Json = { ...values };
  for (const [field, schema] of Object.entries(properties)) {
    const picked = files[field];
    if (schema["type"] !== "file" || !picked) continue;
    const endpoint = endpoints[field];
    must(endpoint !== undefined, `2: the field ${field} has an upload endpoint`);
    must(schema["multiple"] === true || picked.length === 1, "6: one file unless multiple");
    await upload(peer, endpoint, picked);
    const told = picked.map(({ name, type, bytes }) => ({
      name,
      size: bytes.length,
      mimeType: type,
      uploadId: endpoint.uploadId,
    }));
    content[field] = schema["multiple"] === true ? told : told[0];
  }
  return { action: "accept", content };
}

/** Section 5: one form, a part named `file` for each file. */
async function upload(peer: Peer, endpoint: Endpoint, files: readonly Picked[]): Promise<void> {
  const { boundary, field } = part;
  const parts = files.flatMap(({ name, type, bytes }) => [
    Buffer.from(
      `--${boundary}\r\nContent-Disposition: form-data; name="${field}"; filename="${name}"\r\n` +
        `Content-Type: ${type}\r\n\r\n`,
    ),
    bytes,
    Buffer.from("\r\n"),
  ]);
  const body = Buffer.concat([...parts, Buffer.from(`--${boundary}--\r\n`)]);
  const headers = {
    ...peer.credentials,
    "content-type": `multipart/form-data; boundary=${boundary}`,
    "content-length": String(body.length),
  };
  const reply = await ask(endpoint.method, endpoint.url, headers, body);
  reply.body.resume();
  must(reply.status >= 200 && reply.status < 300, `5: an upload is 2xx, not ${reply.status}`);
}

/** Calls a tool that asks for files: by a request of the server, or by `input_required`. */
export async function callWithFiles(peer: Peer, name: string, filled?: Filled): Promise<Message> {
  const answering = (method: string, params: Json): Promise<Json> => {
    must(method === "elicitation/create", "2: files are asked for with elicitation/create");
    return answerBinary(peer, params, filled);
  };
  let retry: Json = {};
  for (let round = 0; round < 8; round++) {
    const message = await peer.call("tools/call", { name, arguments: {}, ...retry }, answering);
    const { result } = message;
    if (result?.["resultType"] !== "input_required") return message;
    const asked = (result["inputRequests"] ?? {}) as Record<
      string,
      { method: string; params: Json }
    >;
    const inputResponses: Json = {};
    for (const [key, { method, params }] of Object.entries(asked)) {
      inputResponses[key] = await answering(method, params);
    }
    const state = result["requestState"];
    retry = state === undefined ? { inputResponses } : { inputResponses, requestState: state };
  }
  throw new Error("the tool asks again and again");
}
