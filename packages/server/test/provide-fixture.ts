import { createProviderBackend } from "../src/provide/provider-backend.ts";
import { createProviderRoute } from "../src/provide/provider-route.ts";
import { toProvider } from "../src/provide/provider.ts";
import type { Provider } from "../src/provide/provider.ts";
import type { OpenOptions, StorageBackend } from "@sluice/storage";

/** The backend of a provider for the anonymous. Its one key is `file` unless a template says otherwise. */
export function backendOf(
  given: Provider | Provider["open"],
  uriOrTemplate = "made://here/file",
): StorageBackend {
  return createProviderBackend({
    provider: toProvider(uriOrTemplate, given),
    route: createProviderRoute(uriOrTemplate),
    principal: undefined,
  });
}

/** What a reader gets: bytes before the end, and the error in place of a clean one. */
export interface Received {
  readonly bytes: Buffer;
  readonly error?: unknown;
}

/** Reads the resource to its end or error, also one of `open`. */
export async function receive(
  backend: StorageBackend,
  options: OpenOptions = {},
  key = "file",
): Promise<Received> {
  const chunks: Uint8Array[] = [];
  try {
    const { body } = await backend.open(key, options);
    for await (const chunk of body) chunks.push(chunk);
  } catch (error) {
    return { bytes: Buffer.concat(chunks), error };
  }
  return { bytes: Buffer.concat(chunks) };
}

/** The text of a resource that ends cleanly. */
export async function receiveText(
  given: Provider | Provider["open"],
  options?: OpenOptions,
): Promise<string> {
  const { bytes, error } = await receive(backendOf(given), options);
  if (error !== undefined) throw error;
  return new TextDecoder().decode(bytes);
}

/** A promise, and the function that resolves it. */
export function createLate<T>(): { readonly late: Promise<T>; readonly give: (value: T) => void } {
  let give!: (value: T) => void;
  const late = new Promise<T>((resolve) => (give = resolve));
  return { late, give };
}
