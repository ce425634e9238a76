import { request as httpsRequest } from "node:https";
import { Readable } from "node:stream";
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { EXTENSION_ID } from "@sluice/core/wire";
import { z } from "zod";

/** A call as the official client sends it, for outside programs to repeat. */
export interface RecordedCall {
  readonly headers: Headers;
  readonly body: string;
  readonly result: Readonly<Record<string, unknown>>;
}

/** What to call. */
interface Call {
  readonly method: string;
  readonly params: Readonly<Record<string, unknown>>;
  /** Answers instead of the server. */
  readonly answer?: object;
}

/** Calls a method with the official client and keeps the request. */
export async function recordCall(endpoint: string, call: Call): Promise<RecordedCall> {
  const { method, params, answer } = call;
  let sent: { headers: Headers; body: string } | undefined;
  const next = endpoint.startsWith("https:") ? fetchUnverified : fetch;
  const recording = async (url: string | URL, init?: RequestInit): Promise<Response> => {
    const body = typeof init?.body === "string" ? init.body : "";
    if (body.includes(`"${method}"`)) {
      sent = { headers: new Headers(init?.headers), body };
      const { id } = JSON.parse(body) as { id: unknown };
      if (answer) return Response.json({ jsonrpc: "2.0", id, result: answer });
    }
    return next(url, init);
  };
  const transport = new StreamableHTTPClientTransport(new URL(endpoint), { fetch: recording });
  const client = new Client(
    { name: "bench", version: "0.0.0" },
    {
      capabilities: { extensions: { [EXTENSION_ID]: {} } },
      versionNegotiation: { mode: "auto" },
    },
  );
  await client.connect(transport);
  try {
    const result = await client.request({ method, params }, z.looseObject({}));
    if (sent === undefined) throw new Error(`bench: the client sent no ${method}`);
    sent.headers.set("accept", "application/json, text/event-stream, */*");
    return { ...sent, result };
  } finally {
    await client.close();
  }
}

/** What wrk has to send: the call as the official client made it. */
export function wrkScript({ headers, body }: RecordedCall): string {
  const lines = [...headers].map(([name, value]) => `wrk.headers[ ${lua(name)} ] = ${lua(value)}`);
  return ['wrk.method = "POST"', `wrk.body = ${lua(body)}`, ...lines, ""].join("\n");
}

/** A text as Lua writes it. */
function lua(text: string): string {
  return `[==[${text}]==]`;
}

/** `fetch` that takes the self-signed certificate of a server on this machine. */
async function fetchUnverified(url: string | URL, init?: RequestInit): Promise<Response> {
  const headers = Object.fromEntries(new Headers(init?.headers));
  return new Promise((resolve, reject) => {
    const options = { method: init?.method ?? "GET", headers, rejectUnauthorized: false };
    httpsRequest(url, options, (answer) => {
      const status = answer.statusCode ?? 500;
      const body = status === 204 || status === 202 ? null : Readable.toWeb(answer);
      resolve(
        new Response(body as ReadableStream | null, {
          status,
          headers: answer.headers as Record<string, string>,
        }),
      );
    })
      .on("error", reject)
      .end(init?.body);
  });
}
