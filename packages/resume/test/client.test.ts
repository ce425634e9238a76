import { SluiceError } from "@sluice/core";
import { withResumableFetch, type ResumableFetchOptions } from "@sluice/resume/client";
import { describe, expect, test } from "vitest";
import { eventStreams } from "../../core/test/event-streams.ts";

const endpoint = "https://mcp.example/mcp";
const here = "https://mcp.example/resume/1";

/** A request as the server saw it. */
interface Seen {
  readonly method: string;
  readonly url: string;
  readonly headers: Headers;
  readonly body: string;
  readonly at: number;
}

type Step = (seen: Seen, signal: AbortSignal | undefined) => Response | Promise<Response>;

/** A server that answers in turn as a test says; the last answer is that to all later requests. */
function scripted(...steps: readonly Step[]) {
  const seen: Seen[] = [];
  const fetch = async (input: string | URL, init: RequestInit = {}): Promise<Response> => {
    const { method = "GET", headers, body } = init;
    const request = {
      method,
      url: String(input),
      headers: new Headers(headers),
      body: typeof body === "string" ? body : "",
      at: performance.now(),
    };
    const step = steps[Math.min(seen.length, steps.length - 1)]!;
    seen.push(request);
    return step(request, init.signal ?? undefined);
  };
  return { seen, fetch };
}

/** An answer with these blocks; `open` leaves it open, as `cut` breaks it. */
function events(
  blocks: readonly string[],
  { link = here, end = "close" }: { link?: string; end?: "close" | "open" | "cut" } = {},
): Response {
  const body = new ReadableStream<Uint8Array>({
    start(controller) {
      for (const block of blocks) controller.enqueue(new TextEncoder().encode(block));
      if (end === "close") controller.close();
      if (end === "cut") setTimeout(() => controller.error(new TypeError("cut")), 1);
    },
  });
  return new Response(body, {
    headers: {
      "content-type": "text/event-stream",
      ...(link !== "" && { link: `<${link}>; rel="stream"` }),
    },
  });
}

const event = (id: number, message: object): string =>
  `id: e${id}\ndata: ${JSON.stringify({ jsonrpc: "2.0", ...message })}\n\n`;
const question = (id: number, name: number | string = id): string =>
  event(id, { id: name, method: "elicitation/create", params: {} });
const result = event(9, { id: 1, result: { ok: true } });
const yourTurn = (): Response => new Response(null, { status: 204 });

const session = { "mcp-session-id": "s", authorization: "Bearer one" };

function start(server: ReturnType<typeof scripted>, options: ResumableFetchOptions = {}) {
  const fetch = withResumableFetch(server.fetch, { retryMs: 1, ...options });
  const post = (message: object, more: RequestInit = {}) =>
    fetch(endpoint, {
      method: "POST",
      headers: session,
      body: JSON.stringify({ jsonrpc: "2.0", ...message }),
      ...more,
    });
  return {
    post,
    fetch,
    call: async (more?: RequestInit) => post({ id: 1, method: "tools/call", params: {} }, more),
    answer: (id: number | string) => post({ id, result: { n: id } }),
  };
}

/** Reads until a text was seen. */
async function readTo(response: Response, text: string) {
  const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
  let all = "";
  while (!all.includes(text)) {
    const { done, value } = await reader.read();
    if (done) throw new Error(`ended without ${text}: ${all}`);
    all += value;
  }
  return { all, reader };
}

async function rest({ reader }: Awaited<ReturnType<typeof readTo>>): Promise<string> {
  let all = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return all;
    all += value;
  }
}

describe("a stream with a link", () => {
  test("resumes at it after the last whole event, with the session's credentials [SEP-1335/link/must-get] [SEP-1335/link/should-send-last-event-id]", async () => {
    const [note, more] = [event(1, { method: "a" }), event(2, { method: "b" })];
    const server = scripted(
      () => events([note, more.slice(0, 20)], { end: "cut" }),
      () => events([], { link: "/resume/2" }),
      () => events([more, result]),
    );
    const text = await (await start(server).call()).text();
    expect(text.match(/"method":"./g)).toEqual(['"method":"a', '"method":"b']);
    expect(text).toContain("ok");
    const [, first, second] = server.seen;
    expect([first?.method, first?.url, first?.headers.get("last-event-id")]).toEqual([
      "GET",
      here,
      "e1",
    ]);
    expect(second?.url).toBe("https://mcp.example/resume/2");
    expect(second?.headers.get("authorization")).toBe("Bearer one");
  });

  test("waits as long as the server says [SEP-1335/disconnect/should-respect-retry]", async () => {
    const server = scripted(
      () => events(["retry: 80\n\n"]),
      () => events(["retry: 100000000\n\n"]),
      () => events([result]),
    );
    await (await start(server, { maxRetryMs: 120 }).call()).text();
    const [a, b, c] = server.seen.map(({ at }) => at);
    // timers may fire a little early
    expect(b! - a!).toBeGreaterThan(75);
    expect(c! - b!).toBeGreaterThan(115);
    expect(c! - b!).toBeLessThan(60_000);
  });

  test.each([
    ["another host", "https://evil.example/resume/1"],
    ["another port", "https://mcp.example:444/resume/1"],
    ["no TLS", "http://mcp.example/resume/1"],
    ["a user in it", "https://a:b@mcp.example/resume/1"],
    ["no URL", "https://"],
  ])("is ignored with %s [SEP-1335/link/same-origin-only]", async (_, link) => {
    const server = scripted(() => events([event(1, { method: "a" })], { link }));
    const response = await start(server).call();
    // untouched: the SDK does with it what it does with any
    expect(response.headers.get("link")).toContain("stream");
    await response.text();
    expect(server.seen).toHaveLength(1);
  });

  test("keeps to the link before if it comes to lead elsewhere", async () => {
    const server = scripted(
      () => events([]),
      () => events([], { link: "https://evil.example/" }),
      () => events([result]),
    );
    await (await start(server).call()).text();
    expect(server.seen.map(({ url }) => url)).toEqual([endpoint, here, here]);
  });

  test("is asked for with newer credentials, once a request of the session has them", async () => {
    let renewed = (): unknown => undefined;
    const server = scripted(
      () => events([]),
      () => {
        renewed();
        return new Response(null, { status: 401 });
      },
      () => new Response(null, { status: 202 }),
      () => events([result]),
    );
    const client = start(server);
    const headers = { ...session, authorization: "Bearer two" };
    renewed = () => client.post({ method: "notifications/x" }, { headers });
    await (await client.call()).text();
    expect(server.seen.at(-1)?.headers.get("authorization")).toBe("Bearer two");
  });
});

test("servers that share a fetch and a session id get nothing of each other", async () => {
  const server = scripted(
    () => events([question(1, 0)]),
    () => new Response(null, { status: 202 }),
    () => events([question(1, 0), result]),
  );
  const client = start(server);
  const asked = await readTo(await client.call(), '"id":0');
  const other = "https://other.example/mcp";
  const body = JSON.stringify({ jsonrpc: "2.0", id: 0, result: {} });
  const headers = { ...session, authorization: "Bearer other" };
  await client.fetch(other, { method: "POST", headers, body });
  await rest(asked);
  expect(server.seen.map(({ url }) => url)).toEqual([endpoint, other, here]);
  expect(server.seen[2]?.headers.get("authorization")).toBe("Bearer one");
});

test("an id of any characters is sent back in UTF-8", async () => {
  const note = event(1, { method: "a" }).replace("e1", "数-é-1");
  const server = scripted(
    () => events([note]),
    () => events([result]),
  );
  expect(await (await start(server).call()).text()).toContain("ok");
  const sent = server.seen[1]?.headers.get("last-event-id") ?? "";
  expect(Buffer.from(sent, "latin1").toString("utf8")).toBe("数-é-1");
});

test("an empty id of an event is not a place to resume after", async () => {
  const server = scripted(
    () => events([event(1, { method: "a" }), "id:\ndata: {}\n\n"]),
    () => events([result]),
  );
  await (await start(server).call()).text();
  expect(server.seen[1]?.headers.has("last-event-id")).toBe(false);
});

test.each(eventStreams)("the place to resume after is that of HTML: $name", async (stream) => {
  const server = scripted(
    () => events([stream.text]),
    () => events([result]),
  );
  expect(await (await start(server).call()).text()).toContain("ok");
  expect(server.seen[1]?.headers.get("last-event-id") ?? "").toBe(stream.lastEventId);
});

describe("the client's turn", () => {
  test("comes with 204: until then answers are kept, then posted as one array, and cleared [SEP-1335/client/must-buffer] [SEP-1335/client/must-post]", async () => {
    const server = scripted(
      () => events([question(1, 0), question(2, "0")]),
      yourTurn,
      () => events([question(3, 7)]),
      yourTurn,
      () => events([result]),
    );
    const client = start(server);
    const asked = await readTo(await client.call(), '"id":"0"');
    for (const id of [0, "0"]) expect((await client.answer(id)).status).toBe(202);
    const again = await readTo(new Response(streamOf(asked.reader)), '"id":7');
    expect((await client.answer(7)).status).toBe(202);
    await rest(again);
    const posted = server.seen.filter(({ method, url }) => method === "POST" && url === here);
    expect(
      posted.map(({ body }) => (JSON.parse(body) as { id: unknown }[]).map(({ id }) => id)),
    ).toEqual([[0, "0"], [7]]);
    expect(server.seen.filter(({ url }) => url === endpoint)).toHaveLength(1);
  });

  test("is looked for again and again while answers are made, so that the link lives", async () => {
    const server = scripted(
      () => events([question(1, 0)]),
      yourTurn,
      yourTurn,
      yourTurn,
      () => events([result]),
    );
    const client = start(server, { renewIntervalMs: 1 });
    await (await client.call()).text();
    expect(server.seen.map(({ method }) => method)).toEqual(["POST", "GET", "GET", "GET", "GET"]);
  });

  test("posts the same array again if the response was lost", async () => {
    const server = scripted(
      () => events([question(1, 0)]),
      yourTurn,
      () => Promise.reject(new TypeError("cut")),
      yourTurn,
      () => events([result]),
    );
    const client = start(server);
    const asked = await readTo(await client.call(), '"id":0');
    await client.answer(0);
    await rest(asked);
    const bodies = server.seen.filter(({ body }) => body.startsWith("[")).map(({ body }) => body);
    expect(bodies).toHaveLength(2);
    expect(bodies[0]).toBe(bodies[1]);
  });

  test("comes again for answers that did not arrive, though there was news in between [SEP-1335/client/must-post]", async () => {
    const server = scripted(
      () => events([question(1, 0)]),
      yourTurn,
      () => Promise.reject(new TypeError("cut")),
      () => events([event(2, { method: "a" })]),
      yourTurn,
      () => events([result]),
    );
    const client = start(server, { maxAttempts: 2 });
    const asked = await readTo(await client.call(), '"id":0');
    await client.answer(0);
    expect(await rest(asked)).toContain("ok");
    const bodies = server.seen.filter(({ body }) => body.startsWith("[")).map(({ body }) => body);
    expect(new Set(bodies).size).toBe(1);
    expect(bodies).toHaveLength(2);
  });

  test("does not wait for the answer to a question that the server withdrew", async () => {
    const withdrawn = event(2, { method: "notifications/cancelled", params: { requestId: 0 } });
    const server = scripted(
      () => events([question(1, 0), withdrawn, question(3, 1)]),
      yourTurn,
      () => events([result]),
    );
    const client = start(server);
    const asked = await readTo(await client.call(), '"id":1');
    await client.answer(1);
    expect(await rest(asked)).toContain("ok");
    expect((JSON.parse(server.seen[2]!.body) as { id: number }[]).map(({ id }) => id)).toEqual([1]);
  });

  test(
    "is taken from a server that waits and does not end the connection",
    { tags: "slow" },
    async () => {
      const server = scripted(
        () => events([question(1, 0)], { end: "open" }),
        yourTurn,
        () => events([result]),
      );
      const client = start(server);
      const asked = await readTo(await client.call(), '"id":0');
      await client.answer(0);
      expect(await rest(asked)).toContain("ok");
    },
  );

  test("a repeated question is not asked again", async () => {
    const server = scripted(
      () => events([question(1, 0)]),
      () => events([question(1, 0), result]),
    );
    const text = await (await start(server).call()).text();
    expect(text.match(/elicitation/g)).toHaveLength(1);
  });

  test("answers to no known question go to the endpoint", async () => {
    const server = scripted(() => new Response(null, { status: 202 }));
    await start(server).answer(5);
    expect(server.seen[0]).toMatchObject({ method: "POST", url: endpoint });
  });
});

describe("giving up", () => {
  /** The error that the SDK gets as the answer to its request. */
  async function failure(server: ReturnType<typeof scripted>, options?: ResumableFetchOptions) {
    const text = await (await start(server, options).call()).text();
    const data = text.split("\n").findLast((line) => line.startsWith("data: "))!;
    return JSON.parse(data.slice(6)) as { id: number; error: { code: number; data: object } };
  }

  test.each([
    ["an expired link", () => new Response(null, { status: 410 }), "expired", 2],
    ["a stream that is gone", () => new Response(null, { status: 404 }), "not_found", 2],
    [
      "a redirect",
      () => new Response(null, { status: 307, headers: { location: "https://evil.example/" } }),
      "protocol",
      2,
    ],
    ["something else", () => Response.json({}), "protocol", 2],
    ["a server that is down", () => new Response(null, { status: 503 }), "unavailable", 4],
    ["no server", () => Promise.reject(new TypeError("refused")), "unavailable", 4],
    ["expired credentials", () => new Response(null, { status: 401 }), "interrupted", 4],
    ["a wait for an unknown request", yourTurn, "interrupted", 4],
  ])("%s fails the request with an error, after its tries", async (_, step, reason, requests) => {
    const server = scripted(() => events([]), step);
    expect(await failure(server, { maxAttempts: 3 })).toMatchObject({
      id: 1,
      error: { code: -32000, data: { reason } },
    });
    expect(server.seen).toHaveLength(requests);
  });

  test("an endless event, and more answers than agreed", async () => {
    const long = scripted(() =>
      events([`data: ${"x".repeat(2_000)}`, "x".repeat(2_000)], { end: "open" }),
    );
    expect(await failure(long, { maxEventLength: 1_000 })).toMatchObject({
      error: { data: { reason: "too_large" } },
    });
    const server = scripted(() => events([question(1, 0)]), yourTurn);
    const client = start(server, { maxAnswerBytes: 100 });
    const asked = await readTo(await client.call(), '"id":0');
    await client.post({ id: 0, result: { text: "x".repeat(200) } });
    expect(await rest(asked)).toContain("too_large");
  });

  test("a request that takes longer than agreed, and a connection that brings nothing", async () => {
    const silent = scripted(() => events([], { end: "open" }));
    expect(await failure(silent, { totalMs: 30 })).toMatchObject({
      error: { data: { reason: "timeout" } },
    });
    const idle = scripted(
      () => events([], { end: "open" }),
      () => events([result]),
    );
    expect(await (await start(idle, { idleMs: 20 }).call()).text()).toContain("ok");
  });

  test("an abort ends it with the reason itself, wherever it is", async () => {
    const reason = new Error("enough");
    const places: readonly (readonly Step[])[] = [
      [() => events([event(1, { method: "a" })], { end: "open" })],
      [() => events([event(1, { method: "a" }), "retry: 60000\n\n"])],
      [() => events([question(1, 0)]), yourTurn],
      [
        () => events([event(1, { method: "a" })]),
        (_, signal) =>
          new Promise((_resolve, reject) => {
            signal!.addEventListener("abort", () => reject(signal!.reason as Error));
          }),
      ],
    ];
    for (const steps of places) {
      const abort = new AbortController();
      const server = scripted(...steps);
      const response = await start(server).call({ signal: abort.signal });
      const { reader } = await readTo(response, "method");
      const next = reader.read();
      await expect.poll(() => server.seen.length).toBeGreaterThanOrEqual(steps.length);
      abort.abort(reason);
      await expect(next).rejects.toBe(reason);
    }
  });

  test("a cancelled request is not followed any more", async () => {
    const server = scripted(
      () => events(["retry: 60000\n\n"]),
      () => new Response(null, { status: 202 }),
    );
    const client = start(server);
    const response = await client.call();
    const text = response.text();
    await client.post({ method: "notifications/cancelled", params: { requestId: 1 } });
    expect(await text).toContain("cancelled");
    expect(server.seen).toHaveLength(2);
  });

  test("rejects invalid bounds", () => {
    for (const wrong of [
      { maxAttempts: 0 },
      { totalMs: Number.NaN },
      { retryMs: 0.5 },
      { totalMs: 2 ** 31 },
    ])
      expect(() => withResumableFetch(fetch, wrong)).toThrow(RangeError);
  });
});

test("no answer is followed in a revision without sessions, and a Last-Event-ID is an error that names the alternatives", async () => {
  const server = scripted(() => events([result]));
  const { fetch } = start(server);
  const headers = { "mcp-protocol-version": "2026-07-28" };
  expect((await fetch(endpoint, { method: "POST", headers })).headers.has("link")).toBe(true);
  const asked = fetch(endpoint, { headers: { ...headers, "last-event-id": "e1" } });
  const error = await asked.catch((caught: unknown) => caught);
  expect(SluiceError.is(error) && error.code).toBe("unsupported");
  for (const words of ["again", "input_required", "subscriptions/listen"])
    expect((error as Error).message).toContain(words);
});

function streamOf(reader: ReadableStreamDefaultReader<string>): ReadableStream<Uint8Array> {
  return new ReadableStream({
    async pull(controller) {
      const { done, value } = await reader.read();
      if (done) controller.close();
      else controller.enqueue(new TextEncoder().encode(value));
    },
  });
}
