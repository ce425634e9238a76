import { createServer } from "node:http";
import { withResumableFetch } from "@sluice/resume/client";
import type { FetchLike } from "@sluice/client";
import { toNodeHandler } from "@sluice/transport-http/node";
import { describe, expect, onTestFinished, test } from "vitest";
import {
  cutting,
  spareFirstEvent,
  spareNothing,
  sparePickedUp,
  startCutter,
} from "../bed/cutter.ts";
import { listen } from "../bed/listen.ts";
import { createRandom } from "../bed/random.ts";
import {
  connectV1,
  connectV2,
  createResuming,
  createSdkEventStore,
  surveyOf,
  type ResumingOptions,
  type SurveyClient,
  type SurveyClientOptions,
} from "../bed/resuming.ts";

const isDeep = process.env["SLUICE_DEEP"] !== undefined;
const sdks = { v1: connectV1, v2: connectV2 } as const;

function start(options: ResumingOptions = {}) {
  const server = createResuming(options);
  onTestFinished(() => server.close());
  return server;
}

async function connect(sdk: keyof typeof sdks, options: SurveyClientOptions) {
  const client = await sdks[sdk](options);
  onTestFinished(() => client.close());
  return client;
}

/** Everything once, in order, and the result. */
async function expectSurvey(client: SurveyClient, name = "a"): Promise<void> {
  const { asked, progress, text } = surveyOf(name);
  client.asked.length = 0;
  client.progress.length = 0;
  expect(await retried(() => client.survey(name))).toBe(text);
  expect([client.asked, client.progress]).toEqual([asked, progress]);
}

/** Notes the requests of a fetch as "METHOD path → status". */
function noting(fetch: FetchLike, notes: string[]): FetchLike {
  return async (input, init) => {
    const response = await fetch(input, init);
    const path = new URL(input).pathname.replace(/resume\/.*/, "resume");
    notes.push(`${init?.method ?? "GET"} ${path} ${response.status}`);
    return response;
  };
}

describe.each(["v1", "v2"] as const)("a client of the SDK %s", (sdk) => {
  test("with links hears everything once of a server with links, and answers at its turn [SEP-1335/link/must-get] [SEP-1335/turns/requests-on-stream] [SEP-1335/client/must-buffer] [SEP-1335/client/must-post] [SEP-1335/turns/repeats]", async () => {
    const notes: string[] = [];
    const { fetch, errors } = start();
    const client = await connect(sdk, { fetch: withResumableFetch(noting(fetch, notes)) });
    await expectSurvey(client);
    const turns = notes.filter((note) => note.includes("/resume"));
    const turn = ["GET /mcp/resume 204", "POST /mcp/resume 200"];
    expect(turns).toEqual([...turn, ...turn, ...turn]);
    // initialize, initialized and the call: no answer to a question went to the endpoint itself
    expect(notes.filter((note) => note.startsWith("POST /mcp "))).toHaveLength(3);
    expect(errors).toEqual([]);
  });

  test("without links is served as ever by a server with links [SEP-1335/compatibility/old-client-new-server]", async () => {
    const notes: string[] = [];
    const { fetch } = start();
    const client = await connect(sdk, { fetch: noting(fetch, notes) });
    await expectSurvey(client);
    expect(notes.filter((note) => note.includes("/resume"))).toEqual([]);
    expect(notes.filter((note) => note === "POST /mcp 202")).toHaveLength(4);
  });

  test("with links is served as ever by a server without [SEP-1335/compatibility/new-client-old-server]", async () => {
    const { fetch } = start({ old: true });
    await expectSurvey(await connect(sdk, { fetch: withResumableFetch(fetch) }));
  });

  test("without links is served by a server without", { tags: "slow" }, async () => {
    await expectSurvey(await connect(sdk, { fetch: start({ old: true }).fetch }));
  });

  test(
    "resumes by priming events with a server that has only these, also below withResumableFetch",
    { tags: "slow" },
    async () => {
      const { fetch } = start({ old: true, sdkEvents: createSdkEventStore() });
      const cut = cutting(fetch, { random: createRandom(3), spare: sparePickedUp });
      await expectSurvey(await connect(sdk, { fetch: cut }), "a");
      await expectSurvey(await connect(sdk, { fetch: withResumableFetch(cut) }), "b");
    },
  );

  test("resumes by priming events with a server with links, whatever breaks", async () => {
    const { fetch } = start();
    const client = await connect(sdk, {
      fetch: cutting(fetch, { random: createRandom(5), spare: spareFirstEvent }),
    });
    await expectSurvey(client);
  });
});

describe("connections that break", () => {
  const runs = isDeep ? 1_000 : 20;

  test(
    `${runs} surveys whose every connection is cut somewhere lose and double nothing [SEP-1335/link/should-resume] [SEP-1335/link/should-send-last-event-id]`,
    { tags: "slow" },
    async () => {
      const { fetch, errors } = start({ resume: { retryMs: 1 } });
      const random = createRandom(7);
      await atOnce(20, 20, async (n) => {
        const broken = cutting(fetch, { random, spare: spareNothing });
        const client = await (n % 2 ? connectV1 : connectV2)({
          fetch: withResumableFetch(broken, { maxAttempts: 50, retryMs: 1, maxRetryMs: 20 }),
        });
        try {
          for (let run = 0; run < runs / 20; run++) await expectSurvey(client, `run ${n}.${run}`);
        } finally {
          await client.close();
        }
      });
      expect(errors).toEqual([]);
    },
  );

  test.each([
    ["skips an event", 1],
    ["tells events again", -2],
  ])("a stream that %s when it is picked up is noticed", async (_, shift) => {
    const { fetch } = start();
    const shifting: FetchLike = (input, init) => {
      const headers = new Headers(init?.headers);
      const [id = "", seq = ""] = headers.get("last-event-id")?.split("/") ?? [];
      if (init?.method === "POST" && id !== "")
        headers.set("last-event-id", `${id}/${Math.max(0, Number(seq) + shift)}`);
      return fetch(input, { ...init, headers });
    };
    const client = await connect("v2", { fetch: withResumableFetch(shifting) });
    await expect(expectSurvey(client)).rejects.toThrow(/refused|to deeply equal/);
  });

  // the contract's figures are 30 s and 1 s; a busy machine cannot miss a cut that the work waits for
  const work = isDeep ? "30 s" : "four cuts";
  const cuts = isDeep ? { connectionMs: 1_000 } : { streamMs: 20 };
  const surveys = isDeep ? 1_000 : 4;

  test(`${surveys} surveys of ${work} complete through a proxy that cuts after ${JSON.stringify(cuts)}`, async () => {
    let handle: ReturnType<typeof toNodeHandler> | undefined;
    const http = createServer((req, res) => handle?.(req, res));
    const listening = await listen(http);
    const cutter = await startCutter(() => listening.port, cuts);
    const endpoint = `${cutter.origin}/mcp`;
    const server = createResuming({
      endpoint,
      resume: { retryMs: 5 },
      ...(isDeep ? { workMs: 7_500 } : { work: cutter.nextCut }),
    });
    handle = toNodeHandler(server.handler);
    onTestFinished(async () => {
      await server.close();
      await cutter.close();
      await listening.close();
    });
    await atOnce(surveys, 200, async (n) => {
      const fetch = withResumableFetch(globalThis.fetch, { retryMs: 5 });
      const client = await retried(() => (n % 2 ? connectV1 : connectV2)({ url: endpoint, fetch }));
      try {
        await expectSurvey(client, `run ${n}`);
      } finally {
        await client.close();
      }
    });
    expect(cutter.cuts()).toBeGreaterThanOrEqual(isDeep ? surveys * 3 : 4);
    expect(server.errors).toEqual([]);
  });
});

/** Runs `count` pieces of work, so many at once. */
async function atOnce(count: number, width: number, work: (n: number) => Promise<void>) {
  let next = 0;
  const worker = async (): Promise<void> => {
    while (next < count) await work(next++);
  };
  await Promise.all(Array.from({ length: width }, worker));
}

/** A request whose answer never began has no link to pick it up at (SEP-1335 says so): it is sent again. */
async function retried<T>(work: () => Promise<T>): Promise<T> {
  for (let tries = 0; ; tries++)
    try {
      return await work();
    } catch (error) {
      if (tries === 20 || (error as Error).message !== "fetch failed") throw error;
    }
}
