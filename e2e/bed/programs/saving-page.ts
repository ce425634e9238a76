// A page that saves a resource over HTTP with the code of the README. The test that opens it bundles this for it.
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { streamingCapabilities, withStreaming } from "@sluice/client/internal";
import { createSaving, type Saving, type SavingParts } from "../../examples/save-in-page.ts";

/** What the test calls. */
export interface SavingPage {
  /** Begins to save, and pauses at once when that is wanted. */
  begin(url: string, uri: string, isPaused: boolean): Promise<void>;
  progress(): readonly [value: number, max: number];
  resume(): void;
  cancel(): void;
  /** SHA-256 of the file, or the name of the error. */
  outcome(): Promise<string>;
}

type File = SavingParts["file"] & { getFile(): Promise<Blob> };
interface Folder {
  getFileHandle(name: string, options: { create: true }): Promise<File>;
}
const { document, navigator } = globalThis as unknown as {
  readonly document: { createElement(name: "progress"): SavingParts["bar"] };
  readonly navigator: { readonly storage: { getDirectory(): Promise<Folder> } };
};

const bar = document.createElement("progress");
let saving: Saving | undefined;
let saved: Promise<string> = Promise.resolve("nothing");

async function save(file: File): Promise<string> {
  try {
    await saving!.save();
  } catch (error) {
    return `${(error as Error).name}, ${(await file.getFile()).size} bytes`;
  }
  const bytes = await (await file.getFile()).arrayBuffer();
  const hash = new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
  return Array.from(hash, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

const page: SavingPage = {
  async begin(url, uri, isPaused) {
    const client = new Client(
      { name: "page", version: "1.0.0" },
      { capabilities: streamingCapabilities(), versionNegotiation: { mode: "auto" } },
    );
    await client.connect(
      new StreamableHTTPClientTransport(new URL(url), { fetch: withStreaming() }),
    );
    // the same kind of handle as a picker gives, which needs a user
    const folder = await navigator.storage.getDirectory();
    const file = await folder.getFileHandle(crypto.randomUUID(), { create: true });
    bar.value = 0;
    saving = createSaving(client, uri, { bar, file });
    if (isPaused) saving.pause();
    saved = save(file);
  },
  progress: () => [bar.value, bar.max],
  resume: () => saving!.resume(),
  cancel: () => saving!.cancel(),
  outcome: () => saved,
};
Object.assign(globalThis, { page });
