import { withResume } from "@sluice/client/resume";
import { describe, expect, onTestFinished, test } from "vitest";
import {
  connectV1,
  connectV2,
  createResuming,
  surveyOf,
  type ResumingOptions,
  type SurveyClientOptions,
} from "../bed/resuming.ts";

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

describe.each(["v1", "v2"] as const)("an official client, %s", (sdk) => {
  test("new client, new server", async () => {
    const server = start();
    const client = await connect(sdk, { fetch: withResume(server.fetch) });
    const { asked, progress, text } = surveyOf("a");
    expect(await client.survey("a")).toBe(text);
    expect([client.asked, client.progress]).toEqual([asked, progress]);
    expect(server.errors).toEqual([]);
  });
  test("old client, new server", async () => {
    const server = start();
    const client = await connect(sdk, { fetch: server.fetch });
    const { asked, progress, text } = surveyOf("a");
    expect(await client.survey("a")).toBe(text);
    expect([client.asked, client.progress]).toEqual([asked, progress]);
  });
  test("new client, old server", async () => {
    const server = start({ old: true });
    const client = await connect(sdk, { fetch: withResume(server.fetch) });
    const { asked, progress, text } = surveyOf("a");
    expect(await client.survey("a")).toBe(text);
    expect([client.asked, client.progress]).toEqual([asked, progress]);
  });
});
