import { createServer } from "node:http";
import { toNodeHandler } from "@sluice/transport-http/node";
import { generateKey } from "@sluice/core";
import { createSluice } from "@sluice/server";
import { createMemoryBackend } from "@sluice/storage";
import { createSessions, withSluice } from "@sluice/transport-http/internal";
import { withResume } from "@sluice/resume/internal";
import { expect, test } from "vitest";
import { listen } from "../../bed/listen.ts";
import { createServerOfSurveys } from "../../bed/resuming.ts";
import { connectHttp } from "../base/http-client.ts";
import type { Json } from "../base/message.ts";
import { callResuming } from "./client.ts";

const token = "session-token";

/** Our sessions with streams that are picked up again, and a tool that asks three times. */
async function startSurveys(users: boolean, work?: () => Promise<void>) {
  const http = createServer();
  const listening = await listen(http);
  const sluice = createSluice({
    storage: createMemoryBackend(),
    baseUri: "files://site/",
    endpoint: `${listening.origin}/mcp`,
    keys: [generateKey()],
    ...(users && {
      principal: ({ authInfo }) => authInfo && { issuer: "i", subject: "ann", clientId: "c" },
    }),
    onWarning: () => {},
  });
  const surveys = createServerOfSurveys(work ? { work } : {});
  const sessions = createSessions(() => sluice.attach(surveys.server()), sluice);
  const resumed = withResume(sessions, sluice, {
    retryMs: 5,
    holdMs: 50,
  });
  const handle = toNodeHandler(withSluice(resumed, sluice));
  http.on("request", (request, response) => {
    const isAnn = request.headers.authorization === `Bearer ${token}`;
    handle(
      isAnn ? Object.assign(request, { auth: { token, clientId: "c", scopes: [] } }) : request,
      response,
    );
  });
  return {
    url: `${listening.origin}/mcp`,
    async [Symbol.asyncDispose]() {
      await resumed.close();
      await sessions.close();
      await listening.close();
    },
  };
}

const answering = async (_method: string, params: Json): Promise<Json> => ({
  action: "accept",
  content: { text: String(params["message"]).at(-1) },
});

test.each([
  { name: "a server of users", users: true },
  { name: "a server of the anonymous", users: false },
])(
  "$name: the client's algorithm of the text ends with the result, in a turn for each question",
  async ({ users }) => {
    await using server = await startSurveys(users);
    const capabilities = { elicitation: {} };
    const told = users ? token : undefined;
    await using peer = await connectHttp(server.url, {
      revision: "2025-11-25",
      capabilities,
      token: told,
    });
    const params = { name: "survey", arguments: { name: "Sea" } };
    const { message, turns } = await callResuming(peer, "tools/call", params, answering);
    expect(message.result).toMatchObject({ content: [{ text: "1|2|3" }] });
    expect(turns).toBe(3);
  },
);

test("a server that works longer than it holds a connection is asked again, and gives the result", async () => {
  let works = 0;
  const work = () =>
    new Promise<void>((resolve) => void setTimeout(resolve, works++ === 0 ? 120 : 0));
  await using server = await startSurveys(true, work);
  const capabilities = { elicitation: {} };
  await using peer = await connectHttp(server.url, { revision: "2025-11-25", capabilities, token });
  const params = { name: "survey", arguments: { name: "Sea" } };
  const { message, resumptions, turns } = await callResuming(peer, "tools/call", params, answering);
  expect(message.result).toMatchObject({ content: [{ text: "1|2|3" }] });
  expect(resumptions).toBeGreaterThan(turns);
});
