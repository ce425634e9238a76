import { createSealer, generateKey, SluiceError, type Principal } from "@sluice/core";
import type { EventStore } from "@sluice/state";
import { createMemoryEventStore } from "@sluice/state/internal";
import { withResume } from "@sluice/resume/internal";
import { createSessions } from "@sluice/transport-http/internal";
import { rerunCalls } from "@sluice/resume/rerun";
import { describe, expect, test } from "vitest";
import {
  answerTo,
  beginningOf,
  createResuming,
  endpoint,
  eventsOf,
  linkOf,
  type Session,
} from "./resuming.ts";

/** Posts answers to a link. */
function array(answers: unknown, headers: Session = {}): RequestInit {
  return {
    method: "POST",
    headers: { "content-type": "application/json", ...headers },
    body: typeof answers === "string" ? answers : JSON.stringify(answers),
  };
}

describe("an answer with events", () => {
  test("has a link of the endpoint's origin whose text says nothing [SEP-1335/link/may-send] [SEP-1335/link/must-same-origin]", async () => {
    const server = createResuming();
    const session = await server.open();
    const response = await server.call("say", session);
    const link = linkOf(response);
    expect(new URL(link).origin).toBe(new URL(endpoint).origin);
    expect(link).toMatch(/\/mcp\/resume\/v1\.[a-z0-9]{2}\.[\w-]{246}$/);
    const events = await eventsOf(response);
    expect(events.at(-1)?.message.result.content[0].text).toBe("said");
    // SEP-1699: an id to come back with, before anything was said
    expect(events[0]).toMatchObject({ retry: 1_000 });
    expect(events[0]?.message).toBeUndefined();
  });

  test("can be read again from its beginning, or behind any of its events, while it is kept [SEP-1335/link/must-respect-last-event-id]", async () => {
    const server = createResuming();
    const session = await server.open();
    const response = await server.call("say", session);
    const link = linkOf(response);
    const [, said] = await eventsOf(response);
    const again = await server.at(link, session);
    expect(linkOf(again)).not.toBe(link);
    expect(await eventsOf(again)).toEqual([said]);
    const behind = await server.at(link, session, { headers: { "last-event-id": said!.id! } });
    expect(await eventsOf(behind)).toEqual([]);
  });

  test("may end before the result, with a retry, and resumes at the link [SEP-1335/disconnect/may-close] [SEP-1335/disconnect/should-retry]", async () => {
    const server = createResuming({ resume: { holdMs: 0, retryMs: 7 } });
    const session = await server.open();
    const response = await server.call("work", session);
    const events = await eventsOf(response);
    expect(events.map(({ retry }) => retry)).toEqual([7, 7]);
    server.release();
    await expect
      .poll(
        async () => (await eventsOf(await server.at(linkOf(response), session))).at(-1)?.message,
      )
      .toMatchObject({ id: 1, result: {} });
  });

  test("is not cancelled when its client disconnects", async () => {
    const server = createResuming();
    const session = await server.open();
    const response = await server.call("work", session);
    await response.body!.cancel();
    server.release();
    const rest = await eventsOf(await server.at(linkOf(response), session));
    expect(rest.at(-1)?.message.result.content[0].text).toBe("worked");
    expect(server.aborted).toEqual([]);
  });

  test("ends for all readers when its request is cancelled, and the link expires", async () => {
    const server = createResuming();
    const session = await server.open();
    const response = await server.call("work", session);
    await server.post({ method: "notifications/cancelled", params: { requestId: 1 } }, session);
    await eventsOf(response);
    expect(server.aborted).toEqual(["work"]);
    expect((await server.at(linkOf(response), session)).status).toBe(404);
  });

  test("is not sent away to a client that would not come back", async () => {
    const server = createResuming({ resume: { holdMs: 0 } });
    const session = await server.open("ann", "2025-06-18");
    const response = await server.call("ask", session);
    const reader = response.body!.getReader();
    const { value } = await reader.read();
    expect(new TextDecoder().decode(value)).toContain("elicitation/create");
    const more = reader.read();
    const answer = { id: 0, result: { action: "accept", content: {} } };
    await server.post(answer, session);
    expect(new TextDecoder().decode((await more).value)).toContain("asked");
  });

  test("ends without an error when its session is deleted, whatever serves the sessions", async () => {
    const inner = createResuming();
    const sessions = createSessions(() => inner.server(), inner.sluice);
    for (const options of [{}, { host: sessions }]) {
      const server = createResuming(options);
      const session = await server.open();
      const calls = [await server.call("work", session, 1), await server.call("work", session, 2)];
      const texts = Promise.all(calls.map((call) => call.text()));
      const ended = await server.send(endpoint, { method: "DELETE", headers: session });
      expect(ended.status).toBe(200);
      for (const text of await texts) expect(text).not.toContain("error");
    }
  });
});

describe("a server that waits for the client", () => {
  async function asking(options: Parameters<typeof createResuming>[0] = {}) {
    const server = createResuming(options);
    const session = await server.open();
    const response = await server.call("ask", session);
    const events = await eventsOf(response);
    const question = events.find(({ message }) => message)!;
    const last = { "last-event-id": question.id! };
    return { server, session, link: linkOf(response), question, last, events };
  }

  test("disconnects, answers 204 to a client that comes back, and takes an array for a new stream with a new link [SEP-1335/turns/must-disconnect] [SEP-1335/turns/must-204] [SEP-1335/turns/must-new-stream]", async () => {
    const { server, session, link, question, last, events } = await asking();
    expect(events.at(-1)?.retry).toBeLessThan(100);
    const turn = await server.at(link, session, { headers: last });
    expect(turn.status).toBe(204);
    const body = array([answerTo(question, { n: 1 })], last);
    const next = await server.at(linkOf(turn), session, body);
    expect(next.status).toBe(200);
    expect(linkOf(next)).not.toBe(link);
    const [result, ...more] = await eventsOf(next);
    expect([result?.message.id, more]).toEqual([1, []]);
    expect(server.heard).toEqual([{ n: 1 }]);
  });

  test("takes the same answers twice, as after a lost connection, and passes them on once", async () => {
    const { server, session, link, question, last } = await asking();
    for (let n = 0; n < 3; n++) {
      const next = await server.at(link, session, array([answerTo(question)], last));
      expect((await eventsOf(next)).at(-1)?.message.result).toBeDefined();
    }
    expect(server.heard).toHaveLength(1);
  });

  test("begins the new stream behind the question that was answered, when the client does not say more", async () => {
    const { server, session, link, question } = await asking();
    const events = await eventsOf(await server.at(link, session, array([answerTo(question)])));
    expect(events.map(({ message }) => message?.id)).toEqual([1]);
  });

  test("refuses anything but an array of answers to its questions, and its stream is unharmed", async () => {
    const { server, session, link, question, last } = await asking({
      resume: { maxRequestBodySize: 4_096 },
    });
    const good = answerTo(question);
    const refusals: readonly (readonly [unknown, number])[] = [
      [[], 400],
      [good, 400],
      [[good, good], 400],
      [[good, { ...good, id: 999 }], 400],
      [[{ ...good, id: 0 }], 400],
      [[{ jsonrpc: "2.0", id: question.message.id, method: "x", result: {} }], 400],
      [[{ jsonrpc: "2.0", id: question.message.id }], 400],
      [["text"], 400],
      [[null], 400],
      ["[{]", 400],
      ["", 400],
      [[answerTo(question, { text: "x".repeat(5_000) })], 413],
    ];
    for (const [body, status] of refusals) {
      const refused = await server.at(link, session, array(body, last));
      expect([status, refused.headers.get("content-type")]).toEqual([
        refused.status,
        "application/problem+json",
      ]);
      expect((await refused.text()).length).toBeLessThanOrEqual(512);
    }
    expect(server.heard).toEqual([]);
    const next = await server.at(link, session, array([good], last));
    expect((await eventsOf(next)).at(-1)?.message.result).toBeDefined();
    expect(server.heard).toHaveLength(1);
  });

  test("gets the first of two different answers", async () => {
    const { server, session, link, question, last } = await asking();
    await server.at(link, session, array([answerTo(question, { n: 1 })], last));
    const other = await server.at(link, session, array([answerTo(question, { n: 2 })], last));
    // refused, or the end of a stream that has ended by now
    await other.body?.cancel();
    await expect.poll(() => server.heard).toEqual([{ n: 1 }]);
  });

  test("refuses an answer beyond the bounds of a stream, and continues", async () => {
    const store = createMemoryEventStore({ maxBytes: 2_000 });
    const { server, session, link, question, last } = await asking({
      resume: { stores: { events: store } },
    });
    const large = array([answerTo(question, { text: "x".repeat(2_000) })], last);
    expect((await server.at(link, session, large)).status).toBe(413);
    const next = await server.at(link, session, array([answerTo(question)], last));
    expect((await eventsOf(next)).at(-1)?.message.result).toBeDefined();
  });
});

describe("a link", () => {
  async function linked(options: Parameters<typeof createResuming>[0] = {}) {
    const server = createResuming(options);
    const session = await server.open();
    const response = await server.call("say", session);
    await response.text();
    return { server, session, link: linkOf(response) };
  }

  test("gives the same 404, to the byte, for another principal, another session, or if altered or unknown", async () => {
    const { server, session, link } = await linked();
    const [stranger, again] = [await server.open("bob"), await server.open("ann")];
    const bob = { ...session, authorization: "Bearer bob" };
    const altered = `${link.slice(0, -5)}${link.at(-5) === "A" ? "B" : "A"}${link.slice(-4)}`;
    const cases: readonly (readonly [string, Session])[] = [
      [link, stranger],
      [link, again],
      [link, bob],
      [altered, session],
      [link.slice(0, -1), session],
      [`${link}A`, session],
      [`${endpoint}/resume/`, session],
    ];
    const answers = new Set<string>();
    for (const method of ["GET", "POST"])
      for (const [url, headers] of cases) {
        const init = method === "GET" ? {} : array([{ jsonrpc: "2.0", id: 0, result: {} }]);
        const refused = await server.at(url, headers, init);
        const all = [...refused.headers].map(String).join("\n");
        answers.add(`${refused.status}\n${all}\n${await refused.text()}`);
      }
    expect([...answers]).toHaveLength(1);
    expect([...answers][0]).toMatch(/^404\n/);
    const { authorization: _, ...anonymous } = session;
    expect((await server.at(link, anonymous)).status).toBe(401);
    expect((await server.at(link, session)).status).toBe(200);
  });

  test.each([
    ["does not know one principal from another", { subject: "ann" }, 1],
    ["does not know one session from another", { sessionId: "the same" }, 2],
  ])("is open to others, and noticed, with a server that %s", async (_, mistaken, others) => {
    const { server, session, link } = await linked({
      breaking: (sluice) => ({
        ...sluice,
        host: {
          ...sluice.host,
          async identify(caller) {
            const member = await sluice.host.identify(caller);
            return { ...member, principal: { ...member.principal!, ...mistaken } };
          },
        },
      }),
    });
    const bob = { ...session, authorization: "Bearer bob" };
    const elsewhere = { ...session, "mcp-session-id": "another" };
    const served = await Promise.all(
      [bob, elsewhere].map(async (headers) => (await server.at(link, headers)).status),
    );
    expect(served).toEqual(others === 1 ? [200, 404] : [404, 200]);
  });

  test("lives on, and is noticed, with a server that forgets ended sessions", async () => {
    const { server, session, link } = await linked({
      breaking: (sluice) => ({
        ...sluice,
        host: { ...sluice.host, isSessionOver: async () => false },
      }),
    });
    await server.sluice.endSession(session["mcp-session-id"]!);
    expect((await server.at(link, session)).status).toBe(200);
  });

  test("is 410 once expired, only of a genuine token", async () => {
    const { server, session } = await linked();
    const { keys } = server.sluice.host;
    const sealer = createSealer({ keys, audience: endpoint });
    const principal: Principal = {
      issuer: "i",
      subject: "ann",
      clientId: "c",
      sessionId: session["mcp-session-id"]!,
    };
    const now = Date.now() - 600_000;
    const terms = { key: `${crypto.randomUUID()} 0`, principal, now, ttlMs: 60_000 };
    const status = async (token: string) =>
      (await server.at(`${endpoint}/resume/${token}`, session)).status;
    expect(await status(sealer.seal("resume", terms).token)).toBe(410);
    // a key for each purpose: no download link is one to a stream, however fresh
    expect(await status(sealer.seal("download", { ...terms, now: Date.now() }).token)).toBe(404);
    const { sessionId: _, ...anywhere } = principal;
    const unbound = { ...terms, now: Date.now(), principal: anywhere };
    expect(await status(sealer.seal("resume", unbound).token)).toBe(404);
  });

  test("ends with its session", async () => {
    const { server, session, link } = await linked();
    const ended = await server.send(endpoint, { method: "DELETE", headers: session });
    expect(ended.status).toBe(200);
    expect((await server.at(link, session)).status).toBe(404);
  });

  test("is served under its own name and to its own pages only, and by GET and POST", async () => {
    const { server, session, link } = await linked();
    expect((await server.at(link, session, { headers: { host: "evil.example" } })).status).toBe(
      421,
    );
    expect(
      (await server.at(link, session, { headers: { origin: "https://evil.example" } })).status,
    ).toBe(403);
    expect((await server.at(link, session, { method: "DELETE" })).status).toBe(405);
    const preflight = await server.at(
      link,
      {},
      {
        method: "OPTIONS",
        headers: { origin: new URL(endpoint).origin, "access-control-request-method": "POST" },
      },
    );
    expect(preflight.headers.get("access-control-allow-headers")).toContain("Last-Event-ID");
    expect(preflight.headers.get("access-control-expose-headers")).toContain("Link");
  });

  test("takes no place that is not in its stream", async () => {
    const { server, session, link } = await linked();
    for (const id of ["nonsense", `${crypto.randomUUID()}/0`, "1"])
      expect((await server.at(link, session, { headers: { "last-event-id": id } })).status).toBe(
        400,
      );
  });

  test("names the alternatives in a revision without sessions", async () => {
    const { server, session, link } = await linked();
    const modern = { ...session, "mcp-protocol-version": "2026-07-28" };
    const refused = await server.at(link, modern);
    expect(refused.status).toBe(400);
    const { reason, detail } = (await refused.json()) as { reason: string; detail: string };
    expect(reason).toBe("revision");
    for (const word of ["input_required", "subscriptions/listen", "again"])
      expect(detail).toContain(word);
    const reopened = await server.send(endpoint, { headers: { ...modern, "last-event-id": "x" } });
    expect([reopened.status, ((await reopened.json()) as { reason: string }).reason]).toEqual([
      405,
      "revision",
    ]);
  });
});

describe("a client without links", () => {
  test("picks a stream up at the endpoint by the id of an event, its own only", async () => {
    const server = createResuming();
    const session = await server.open();
    const events = await eventsOf(await server.call("say", session));
    const from = { accept: "text/event-stream", "last-event-id": events[0]!.id! };
    const get = (headers: Session) => server.send(endpoint, { headers: { ...headers, ...from } });
    const again = await get(session);
    expect((await eventsOf(again)).at(-1)).toEqual(events.at(-1));
    for (const other of [await server.open("bob"), await server.open("ann")])
      expect((await get(other)).status).toBe(400);
    const unknown = { ...session, "last-event-id": `${crypto.randomUUID()}/0` };
    expect((await server.send(endpoint, { headers: unknown })).status).toBe(400);
  });

  test("answers at the endpoint, and no other principal does for it", async () => {
    const server = createResuming();
    const session = await server.open();
    const [, question] = await eventsOf(await server.call("ask", session));
    const answer = answerTo(question!, { n: 1 });
    const bob = { ...session, authorization: "Bearer bob" };
    expect((await server.post(answer, bob)).status).toBe(404);
    expect(server.heard).toEqual([]);
    for (let n = 0; n < 2; n++) expect((await server.post(answer, session)).status).toBe(202);
    await expect.poll(() => server.heard).toEqual([{ n: 1 }]);
  });
});

describe("a question that the server withdrew", () => {
  test("is not waited for, and what is answered to it all the same harms nothing", async () => {
    const server = createResuming({ resume: { holdMs: 0 } });
    const session = await server.open();
    const first = await server.call("ask-twice", session);
    const link = linkOf(first);
    const headers = await beginningOf(first);
    // two questions, and that the first one counts no more
    const asked = async () =>
      (await eventsOf(await server.at(link, session, { headers }))).filter(
        ({ message }) => message,
      );
    await expect.poll(async () => (await asked()).length).toBe(3);
    const [one, , two] = await asked();
    const last = { "last-event-id": two!.id! };
    expect((await server.at(link, session, { headers: last })).status).toBe(204);
    await (await server.at(link, session, array([answerTo(two!)], last))).text();
    expect(server.heard).toHaveLength(1);
    // no question is open: it is not the client's turn
    expect((await server.at(link, session, { headers: last })).status).toBe(200);
    const late = await server.at(link, session, array([answerTo(one!)], last));
    expect(late.status).toBe(200);
    await late.text();
    expect(server.heard).toHaveLength(1);
    server.release();
    await expect
      .poll(async () => (await asked()).at(-1)?.message)
      .toMatchObject({ id: 1, result: {} });
  });
});

describe("a store that does not answer in time", () => {
  test("gets a kept event again, and has it once", async () => {
    const store = createMemoryEventStore();
    let times = 0;
    const unclear: EventStore = {
      ...store,
      async append(...args) {
        const seq = await store.append(...args);
        times += 1;
        if (times % 2 === 1) throw new SluiceError("unavailable", "no answer in time");
        return seq;
      },
    };
    const server = createResuming({ resume: { stores: { events: unclear } } });
    const session = await server.open();
    const response = await server.call("ask", session);
    const question = (await eventsOf(response)).find(({ message }) => message)!;
    const next = await server.at(linkOf(response), session, array([answerTo(question)]));
    const events = await eventsOf(next);
    expect(events.map(({ message }) => message?.id)).toEqual([1]);
    expect([times, server.errors]).toEqual([4, []]);
  });

  test("and has opened a stream all the same does not keep it, and the answer is complete", async () => {
    const store = createMemoryEventStore();
    const opened: string[] = [];
    const unclear: EventStore = {
      ...store,
      async open(id, stream) {
        await store.open(id, stream);
        opened.push(id);
        throw new SluiceError("unavailable", "no answer in time");
      },
    };
    const server = createResuming({ resume: { stores: { events: unclear } } });
    const response = await server.call("say", await server.open());
    expect(response.headers.has("link")).toBe(false);
    expect(await response.text()).toContain("said");
    expect(await store.read(opened[0]!, { after: 0, now: Date.now() })).toBeUndefined();
  });

  test("is no reason to leave a session open that is deleted", async () => {
    const store = createMemoryEventStore();
    const down: EventStore = {
      ...store,
      drop: async () => Promise.reject(new SluiceError("unavailable", "down")),
    };
    const server = createResuming({ resume: { stores: { events: down } } });
    const session = await server.open();
    const calls = [await server.call("work", session, 1), await server.call("work", session, 2)];
    const ended = await server.send(endpoint, { method: "DELETE", headers: session });
    expect(ended.status).toBe(200);
    for (const call of calls) expect((await server.at(linkOf(call), session)).status).toBe(404);
    expect(server.errors).toMatchObject([{ code: "unavailable" }, { code: "unavailable" }]);
  });
});

describe("a request whose process is gone", () => {
  /** A question of one process, and another process that has its keys, its sessions and its store. */
  async function orphan() {
    const store = createMemoryEventStore();
    const keys = [generateKey()];
    const [one, two] = [0, 1].map(() =>
      createResuming({ resume: { stores: { events: store } }, sluice: { keys } }),
    );
    const session = await one!.open();
    const response = await one!.call("ask", session);
    const question = (await eventsOf(response)).find(({ message }) => message)!;
    await one!.handler.close();
    return { server: two!, session, link: linkOf(response), question };
  }
  const interrupted = { id: 1, error: { code: -32603, data: { reason: "interrupted" } } };

  test("ends as interrupted for a client that posts the answers", async () => {
    const { server, session, link, question } = await orphan();
    const next = await server.at(link, session, array([answerTo(question)]));
    expect((await eventsOf(next)).at(-1)?.message).toMatchObject(interrupted);
  });

  test("ends as interrupted for a reader that stays, as soon as its process is given up", async () => {
    const store = createMemoryEventStore();
    const dead: EventStore = { ...store, hold: async () => true };
    const keys = [generateKey()];
    const [one, two] = [dead, store].map((its) =>
      createResuming({
        resume: { stores: { events: its }, leaseMs: 300, retryMs: 0 },
        sluice: { keys },
      }),
    );
    const session = await one!.open("ann", "2025-06-18");
    const reader = (await one!.call("ask", session)).body!.getReader();
    const text = new TextDecoder().decode((await reader.read()).value);
    const headers = { ...session, "last-event-id": /^id: (.*)$/m.exec(text)![1]! };
    const rest = await two!.send(endpoint, { headers });
    expect((await eventsOf(rest)).at(-1)?.message).toMatchObject(interrupted);
    await reader.cancel();
  });

  test("ends as interrupted for a client that comes back, in place of a 204", async () => {
    const { server, session, link, question } = await orphan();
    const headers = { "last-event-id": question.id! };
    const next = await server.at(link, session, { headers });
    expect((await eventsOf(next)).at(-1)?.message).toMatchObject(interrupted);
  });
});

test("a question withdrawn as its process died is withdrawn by the next one, by the id that the client knows", async () => {
  const store = createMemoryEventStore();
  const keys = [generateKey()];
  const dying: EventStore = {
    ...store,
    append: async (id, event) =>
      event.text.includes("notifications/cancelled")
        ? Promise.reject(new SluiceError("precondition_failed", "this process is gone"))
        : store.append(id, event),
  };
  const [one, two] = [dying, store].map((its) => {
    const rerun = rerunCalls({ allows: () => true, server: () => server.server() });
    const server = createResuming({
      resume: { stores: { events: its }, leaseMs: 100, rerun },
      sluice: { keys },
    });
    return server;
  });
  const session = await one!.open();
  const response = await one!.call("ask-twice", session);
  const link = linkOf(response);
  const headers = await beginningOf(response);
  const said = async () =>
    (await eventsOf(await two!.at(link, session, { headers }))).flatMap(
      ({ message }) => message ?? [],
    );
  await expect.poll(async () => (await said()).length, { timeout: 5_000 }).toBe(3);
  const [first, cancelled, second] = await said();
  expect(cancelled).toMatchObject({
    method: "notifications/cancelled",
    params: { requestId: first.id },
  });
  expect(second.id).not.toBe(first.id);
  two!.release();
  const next = await two!.at(link, session, array([answerTo({ message: second }, { n: 2 })]));
  expect((await eventsOf(next)).at(-1)?.message).toMatchObject({ id: 1, result: {} });
  expect([one!.heard, two!.heard]).toEqual([[], [{ n: 2 }]]);
});

test("a reader of a stream that another process writes leaves time to all others", async () => {
  const server = createResuming({ resume: { retryMs: 0 } });
  const session = await server.open("ann", "2025-06-18");
  const response = await server.call("work", session);
  await server.handler.close();
  const reader = response.body!.getReader();
  const more = reader.read();
  // a loop without a pause keeps this from coming
  await new Promise((resolve) => void setTimeout(resolve, 1));
  await reader.cancel();
  expect(await more).toMatchObject({ done: true });
});

describe("without room", () => {
  test("an answer is one stream without a link, and complete", async () => {
    const server = createResuming({
      resume: { stores: { events: createMemoryEventStore({ maxStreams: 1 }) } },
    });
    const session = await server.open();
    const first = await server.call("work", session, 1);
    const second = await server.call("say", session, 2);
    expect([first.headers.has("link"), second.headers.has("link")]).toEqual([true, false]);
    expect(await second.text()).toContain("said");
    expect(server.errors).toMatchObject([{ code: "unavailable" }]);
    await first.body!.cancel();
  });

  test("a stream that outgrows its bound ends with an error, and its request is cancelled", async () => {
    const store = createMemoryEventStore({ maxEvents: 1 });
    const append = store.append.bind(store);
    let times = 0;
    const small = {
      ...store,
      append: (...args: Parameters<typeof append>) => (times++, append(...args)),
    };
    const server = createResuming({ resume: { stores: { events: small } } });
    const session = await server.open();
    const response = await server.call("ask", session);
    const events = await eventsOf(response);
    expect(events.at(-1)?.retry).toBeDefined();
    const question = events.find(({ message }) => message);
    const next = await server.at(linkOf(response), session, array([answerTo(question!)]));
    // a result is always the last event: it fits as long as it is short
    expect((await eventsOf(next)).at(-1)?.message.result).toBeDefined();
    expect(times).toBe(2);
  });
});

test("rejects invalid bounds", () => {
  const { sluice, store } = createResuming();
  const handler = { fetch: async () => new Response() };
  for (const wrong of [
    { holdMs: -1 },
    { holdMs: 2 ** 31 },
    { retryMs: 0.5 },
    { leaseMs: 99 },
    { maxAgeMs: 0 },
    { keepMs: Number.NaN },
    { linkTtlMs: 900_001 },
  ])
    expect(() => withResume(handler, sluice, { stores: { events: store }, ...wrong })).toThrow(
      RangeError,
    );
});
