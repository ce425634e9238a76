import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { formatKey, generateKey } from "@sluice/core";
import { startProgram, type Program } from "./program.ts";
import type { ServeSharedSettings, SharedQuestion, SharedState } from "./programs/serve-shared.ts";
import { call, send, type RawAnswer } from "./raw.ts";
import { sharedEndpoint, type TokenDesk } from "./token-desk.ts";

/** What a test wants of a fleet. */
export interface FleetOptions {
  readonly files: Readonly<Record<string, Uint8Array>>;
  readonly size: number;
  readonly redis?: ServeSharedSettings["redis"];
  readonly grant?: ServeSharedSettings["grant"];
}

/** One process of a fleet. */
export interface Member extends TokenDesk {
  readonly process: Program<unknown>["process"];
  /** Address of its own; what it gives leads to the name of all. */
  readonly url: string;
  /** Asks over HTTP for a download URL of a key, at this process. */
  link(key: string): Promise<string>;
  /** Redeems a URL of any process at this one, over HTTP. */
  get(link: string): Promise<RawAnswer>;
  state(): Promise<SharedState>;
}

/** Processes that serve the same, under one name. */
export interface Fleet extends AsyncDisposable {
  readonly members: readonly Member[];
  /** The file of keys that all of them follow. */
  readonly keysFile: string;
}

export async function startFleet(options: FleetOptions): Promise<Fleet> {
  const { size, redis, grant = {} } = options;
  const folder = await mkdtemp(join(tmpdir(), "sluice-fleet-"));
  const root = join(folder, "root");
  await mkdir(root);
  for (const [key, content] of Object.entries(options.files))
    await writeFile(join(root, key), content);
  const keysFile = join(folder, "keys");
  await writeFile(keysFile, `${formatKey(generateKey())}\n`, { mode: 0o600 });
  const settings: ServeSharedSettings = {
    root,
    keysFile,
    grant,
    ...(redis && { redis }),
  };
  const started = await Promise.allSettled(
    Array.from({ length: size }, () => startProgram<{ port: number }>("serve-shared", settings)),
  );
  const programs = started.flatMap((each) => (each.status === "fulfilled" ? [each.value] : []));
  const end = async (): Promise<void> => {
    await Promise.all(programs.map((program) => program[Symbol.asyncDispose]()));
    await rm(folder, { recursive: true, force: true });
  };
  const failed = started.find((each) => each.status === "rejected");
  if (failed) {
    await end();
    throw failed.reason;
  }
  return { members: programs.map(toMember), keysFile, [Symbol.asyncDispose]: end };
}

function toMember({ hello: { port }, process }: Program<{ port: number }>): Member {
  const url = `http://127.0.0.1:${port}/mcp`;
  const ask = asking(process);
  return {
    process,
    url,
    async link(key) {
      const params = { uri: `files://site/${key}` };
      const { message, status } = await call(url, "resources/stream", params, {
        streaming: {},
      });
      const link = message?.result?.["downloadUrl"];
      if (typeof link !== "string") throw new Error(`no download URL but ${status}`);
      return link;
    },
    get: (link) => send("GET", link.replace(sharedEndpoint, url)),
    mint: (key, count) => ask({ mint: count, key }),
    redeem: (tokens) => ask({ redeem: tokens }),
    keys: () => ask({ about: "keys" }),
    state: () => ask({ about: "state" }),
  };
}

/** A question, before it has its number. */
type Unnumbered = SharedQuestion extends infer Each
  ? Each extends SharedQuestion
    ? Omit<Each, "number">
    : never
  : never;

/** Questions to a process, any number at a time. Rejects those that are open when it ends. */
function asking(child: Member["process"]) {
  const open = new Map<number, (message: { answer: unknown } | undefined) => void>();
  let numbers = 0;
  child.on("message", (message: { number: number; answer: unknown }) => {
    open.get(message.number)?.(message);
    open.delete(message.number);
  });
  child.on("exit", () => {
    for (const settle of open.values()) settle(undefined);
  });
  return async <Answer>(question: Unnumbered): Promise<Answer> => {
    const number = (numbers += 1);
    const message = await new Promise<{ answer: unknown } | undefined>((resolve) => {
      open.set(number, resolve);
      child.send({ ...question, number });
    });
    if (!message) throw new Error("the process ended");
    return message.answer as Answer;
  };
}
