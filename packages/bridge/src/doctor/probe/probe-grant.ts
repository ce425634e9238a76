import { acceptUrl } from "@sluice/client";
import { parseReprDigest, SluiceError } from "@sluice/core";
import { EXTENSION_ID, STREAM_METHOD } from "@sluice/core/wire";
import * as z from "zod/mini";
import type { Evidence, SeenGrant } from "../evidence.ts";
import { getBytes } from "./get-bytes.ts";
import { answerMs, type Visit } from "./visit.ts";

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
  const request = { method: STREAM_METHOD, params: { uri } };
  const result = await client
    .request(request, resultSchema, { signal, timeout: answerMs })
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
export function acceptNamed(
  text: string,
  { evidence, trustedOrigins }: Visit,
): SeenGrant["accepted"] {
  const policy = { endpoint: evidence.endpoint, trustedOrigins, redirects: "trusted" } as const;
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
export async function findOwn(text: string, visit: Visit): Promise<string | undefined> {
  if (!URL.canParse(text)) return undefined;
  for (const candidate of candidatesFor(new URL(text), visit.evidence)) {
    const body = await getBytes(visit, candidate, { range: "bytes=0-0", atMost: 1 });
    if ((body.status === 200 || body.status === 206) && !isPage(body.headers))
      return candidate.href;
  }
  return undefined;
}

/** At most six: a path has few parts. */
function candidatesFor(given: URL, { endpoint }: Evidence): URL[] {
  const parts = given.pathname.split("/").slice(1);
  const bases = endpoint.pathname.split("/").slice(0, -1).join("/");
  const paths = [given.pathname];
  for (let from = 0; from < Math.min(parts.length, 4); from++)
    for (const base of [bases, endpoint.pathname])
      paths.push(`${base}/${parts.slice(from).join("/")}`);
  return [...new Set(paths)]
    .map((path) => new URL(`${path}${given.search}`, endpoint.origin))
    .filter(({ href }) => href !== given.href)
    .slice(0, 6);
}

function isPage(headers: Headers): boolean {
  return /^text\/html\b/i.test(headers.get("content-type") ?? "");
}
