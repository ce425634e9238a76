import * as z from "zod/mini";
import { request } from "undici";
import { acceptUrl, streamingCapabilities } from "@sluice/client/internal";
import { SluiceError } from "@sluice/core";
import {
  EXTENSION_ID,
  FILE_KEYWORD,
  linkWith,
  parseReprDigest,
  readJson,
  RESOURCE_URI_HEADER,
  STREAM_METHOD,
} from "@sluice/core/internal";
import {
  lateMs,
  type SeenBody,
  type SentCall,
  type Evidence,
  type SeenGrant,
} from "../evidence.ts";
import { answerMs, type Visit } from "./visit.ts";
import { CAPABILITIES_KEY } from "../../messages/envelope.ts";
import { membersOf } from "../../messages/messages.ts";

/** Bytes of a resource to read from its beginning. */
const wholeBytes = 768 * 1024;

/** With less left of what may be downloaded, nothing is. */
const minBytes = 4_096;

/** GETs the resource as a whole, up to 768 KiB. */
export async function probeWhole(visit: Visit): Promise<void> {
  const { evidence } = visit;
  const { grant } = evidence;
  if (!grant || "refusal" in grant.accepted || visit.budget.left < minBytes) return;
  const { url } = grant.accepted;
  // half of what is left: a slow beginning is looked at twice
  const atMost = Math.min(wholeBytes, Math.floor(visit.budget.left / 2));
  const whole = await getBytes(visit, url, { atMost });
  evidence.whole = whole;
  if (whole.status === 404)
    evidence.grant = { ...grant, answersAt: await findOwn(url.href, visit) };
}

/** GETs one byte of it, and the whole once more where that began late. */
export async function probeRange(visit: Visit): Promise<void> {
  const { evidence } = visit;
  const { grant, whole } = evidence;
  if (!grant || "refusal" in grant.accepted || !whole || whole.bytes.length < 2) return;
  const { url } = grant.accepted;
  evidence.oneByte = await getBytes(visit, url, { range: "bytes=1-1", atMost: 1 });
  if (whole.firstByteMs < lateMs) return;
  const second = await getBytes(visit, url, { atMost: whole.bytes.length });
  evidence.secondFirstByteMs = second.firstByteMs;
}

interface Reading {
  readonly range?: string;
  readonly atMost: number;
  /** Sends no credentials to any origin. Default: they go to the endpoint's own. */
  readonly isBare?: boolean;
  /** A message to POST in place of the GET, with all of its headers. */
  readonly post?: SentCall;
}

/** Reads a URL as downloads do, with credentials at the endpoint's own origin only. Rejects only with the abort's reason. */
async function getBytes(
  { dispatcher, evidence, headers, client, budget, signal }: Visit,
  url: URL,
  { range, atMost, isBare, post }: Reading,
): Promise<SeenBody> {
  const sentHeaders: Record<string, string> = {
    accept: "*/*",
    ...post?.headers,
    "accept-encoding": "identity",
  };
  if (range !== undefined) sentHeaders["range"] = range;
  if (!post && !isBare && url.origin === evidence.endpoint.origin) {
    Object.assign(sentHeaders, headers);
    const { sessionId } = (client.transport ?? {}) as { readonly sessionId?: string };
    if (sessionId !== undefined) sentHeaders["mcp-session-id"] = sessionId;
  }
  const limit = Math.max(1, Math.min(atMost, budget.left));
  const chunks: Uint8Array[] = [];
  let [status, received, isWhole, firstByteMs] = [0, 0, false, 0];
  let answered = new Headers();
  const startedAt = performance.now();
  try {
    const end = AbortSignal.any([signal, AbortSignal.timeout(answerMs)]);
    const method = post ? "POST" : "GET";
    const body = post?.body ?? null;
    const answer = await request(url, {
      dispatcher,
      method,
      headers: sentHeaders,
      body,
      signal: end,
    });
    status = answer.statusCode;
    answered = new Headers();
    for (const [name, value] of Object.entries(answer.headers))
      if (value !== undefined) answered.set(name, [value].flat().join(", "));
    for await (const chunk of answer.body as AsyncIterable<Uint8Array>) {
      if (received === 0) firstByteMs = performance.now() - startedAt;
      const part = chunk.subarray(0, limit - received);
      chunks.push(part);
      received += part.length;
      budget.take(part.length);
      if (part.length < chunk.length || received === limit) break;
    }
    isWhole = answer.body.readableEnded || received < limit;
  } catch (fault) {
    signal.throwIfAborted();
    return { status, headers: answered, bytes: Buffer.concat(chunks), isWhole, firstByteMs, fault };
  }
  return { status, headers: answered, bytes: Buffer.concat(chunks), isWhole, firstByteMs };
}

const resultSchema = z.looseObject({
  downloadUrl: z.optional(z.string()),
  size: z.optional(z.number()),
  _meta: z.optional(z.looseObject({})),
});

/** Asks for a download URL, where the server streams, and looks at where it leads. */
export async function probeGrant(visit: Visit): Promise<void> {
  const { client, evidence, signal } = visit;
  if (!evidence.server?.hasStreaming) return;
  const uri = visit.uri ?? (await chooseResource(visit));
  evidence.uri = uri;
  if (uri === undefined) return;
  const call = { method: STREAM_METHOD, params: { uri } };
  const result = await client
    .request(call, resultSchema, { signal, timeout: answerMs })
    // it chose another way, or does not give this one: no URL to look at
    .catch(() => undefined);
  signal.throwIfAborted();
  if (result?.downloadUrl === undefined) return;
  const { digest } = (result._meta?.[EXTENSION_ID] ?? {}) as { readonly digest?: unknown };
  const accepted = acceptNamed(result.downloadUrl, visit);
  evidence.grant = {
    text: result.downloadUrl,
    accepted,
    answersAt: "refusal" in accepted ? await findOwn(result.downloadUrl, visit) : undefined,
    size: result.size,
    sha256: typeof digest === "string" ? parseReprDigest(digest) : undefined,
  };
}

/** The largest of the first page that can be read whole; else the first. */
async function chooseResource({ client, budget, signal }: Visit): Promise<string | undefined> {
  const page = await client
    .request({ method: "resources/list" }, { signal, timeout: answerMs })
    .catch(() => undefined);
  signal.throwIfAborted();
  const resources = page?.resources ?? [];
  const sizeOf = ({ size }: { readonly size?: number | undefined }): number =>
    size !== undefined && size <= budget.left / 2 ? size : -1;
  return resources.toSorted((one, other) => sizeOf(other) - sizeOf(one))[0]?.uri;
}

/** What the trust rules of the client make of an address that the server named. */
function acceptNamed(text: string, { evidence, trustedOrigins }: Visit): SeenGrant["accepted"] {
  const policy = { endpoint: evidence.endpoint, trustedOrigins, anyPublic: false };
  try {
    return acceptUrl(text, policy, { base: evidence.endpoint, redirect: false });
  } catch (error) {
    if (SluiceError.is(error)) return { refusal: error.message };
    throw error;
  }
}

/**
 * Where the endpoint's own origin answers for a URL that leads elsewhere: at the same path, or below the path that
 * a proxy has put in front. The other origin is never asked.
 */
async function findOwn(text: string, visit: Visit): Promise<string | undefined> {
  if (!URL.canParse(text)) return undefined;
  for (const candidate of candidatesFor(new URL(text), visit.evidence)) {
    const body = await getBytes(visit, candidate, { range: "bytes=0-0", atMost: 1 });
    if ((body.status === 200 || body.status === 206) && !isPage(body.headers))
      return candidate.href;
  }
  return undefined;
}

/** At most six: a path has few parts. */
function candidatesFor(namedUrl: URL, { endpoint }: Evidence): URL[] {
  const parts = namedUrl.pathname.split("/").slice(1);
  const bases = endpoint.pathname.split("/").slice(0, -1).join("/");
  const paths = [namedUrl.pathname];
  for (let from = 0; from < Math.min(parts.length, 4); from++)
    for (const base of [bases, endpoint.pathname])
      paths.push(`${base}/${parts.slice(from).join("/")}`);
  return [...new Set(paths)]
    .map((path) => new URL(`${path}${namedUrl.search}`, endpoint.origin))
    .filter(({ href }) => href !== namedUrl.href)
    .slice(0, 6);
}

function isPage(headers: Headers): boolean {
  return /^text\/html\b/i.test(headers.get("content-type") ?? "");
}

/** Bytes of a direct response to read from its beginning. */
const directBytes = 256 * 1024;

/** Asks for the bytes in the answer itself, as clients do. Its link stands in for a download URL that was not given. */
export async function probeDirect(visit: Visit): Promise<void> {
  const { evidence, budget, client, signal } = visit;
  const sentRequest = evidence.exchanges.findLast(
    ({ rpcMethod }) => rpcMethod === STREAM_METHOD,
  )?.sent;
  if (!sentRequest || budget.left < minBytes) return;
  const direct = await postStream(
    visit,
    sentRequest,
    Math.min(directBytes, Math.floor(budget.left / 3)),
  );
  if (direct.status !== 200 || !direct.headers.has(RESOURCE_URI_HEADER)) return;
  evidence.direct = direct;
  const link = linkWith(direct.headers, "stream");
  if (!evidence.grant && link !== undefined)
    evidence.grant = {
      text: link,
      accepted: acceptNamed(link, visit),
      size: sizeIn(direct),
      sha256: parseReprDigest(direct.headers.get("repr-digest") ?? ""),
    };
  if (direct.firstByteMs < lateMs) return;
  const second = await postStream(visit, sentRequest, 1);
  // what any request takes is not held back
  const startedAt = performance.now();
  await client.request({ method: "resources/list" }, { signal, timeout: answerMs }).catch(() => {});
  signal.throwIfAborted();
  const soonestMs = Math.min(direct.firstByteMs, second.firstByteMs);
  evidence.isDirectHeld = soonestMs > lateMs && soonestMs > 5 * (performance.now() - startedAt);
}

/** The call as it was made before, by a client that would rather have the bytes. */
function postStream(visit: Visit, { headers, body }: SentCall, atMost: number): Promise<SeenBody> {
  const message = membersOf(readJson(body).value);
  const params = membersOf(message["params"]);
  const meta = membersOf(params["_meta"]);
  const capabilities = membersOf(meta[CAPABILITIES_KEY]);
  const direct = streamingCapabilities({ prefer: ["direct"] });
  const extensions = { ...membersOf(capabilities["extensions"]), ...direct.extensions };
  const _meta = { ...meta, [CAPABILITIES_KEY]: { ...capabilities, ...direct, extensions } };
  return getBytes(visit, visit.evidence.endpoint, {
    atMost,
    post: {
      body: JSON.stringify({ ...message, id: "direct", params: { ...params, _meta } }),
      headers: { ...headers, accept: "application/json, text/event-stream, */*" },
    },
  });
}

function sizeIn({ headers }: SeenBody): number | undefined {
  const length = headers.get("content-length");
  return length === null ? undefined : Number(length);
}

/** The tool that many servers have for links which open without credentials. */
const linkTool = "get_download_link";

/** Lists the tools, for what files do with them. */
export async function probeTools({ client, evidence, signal }: Visit): Promise<void> {
  if (client.getServerCapabilities()?.tools === undefined) return;
  const listResult = await client
    .request({ method: "tools/list" }, { signal, timeout: answerMs })
    .catch(() => undefined);
  signal.throwIfAborted();
  const { tools = [] } = listResult ?? {};
  evidence.tools = {
    // one that changes something is not called
    makeLinks: tools.some(
      ({ name, annotations }) => name === linkTool && annotations?.readOnlyHint === true,
    ),
    takeFiles: tools.some(({ inputSchema }) =>
      JSON.stringify(inputSchema).includes(`"${FILE_KEYWORD}":`),
    ),
  };
}

/** Bytes of what a link gives to read. */
const linkBytes = 1_024;

/** Asks for a link, where a tool that changes nothing makes them, and opens it as a browser would. */
export async function probeLink(visit: Visit): Promise<void> {
  const { client, evidence, budget, signal } = visit;
  const { uri } = evidence;
  if (uri === undefined || budget.left < 2 * linkBytes || !evidence.tools?.makeLinks) return;
  const result = await client
    .callTool({ name: linkTool, arguments: { uri } }, { signal, timeout: answerMs })
    .catch(() => undefined);
  signal.throwIfAborted();
  const { download_url: text } = membersOf(result?.structuredContent);
  if (typeof text !== "string" || result?.isError === true) return;
  const accepted = acceptNamed(text, visit);
  evidence.link = { text, accepted, size: undefined, sha256: undefined };
  if ("refusal" in accepted) return;
  evidence.linked = await getBytes(visit, accepted.url, { atMost: linkBytes, isBare: true });
}
