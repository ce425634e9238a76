/**
 * The article's Parquet file in a folder, and the draft's marks on single resources: what no folder knows, over the wire.
 * @module
 */
import { buffer } from "node:stream/consumers";
import { streamResource } from "@sluice/client";
import { EXTENSION_ID, type RevisionKind } from "@sluice/core/internal";
import type { DescribeResource } from "@sluice/server";
import { expect, test } from "vitest";
import { connect, connectOfficial, sdkNames } from "../bed/clients.ts";
import { bytesOf } from "../bed/content.ts";
import { call, send } from "../bed/raw.ts";
import { startSite } from "../bed/site.ts";

const eras: readonly RevisionKind[] = ["legacy", "modern"];
const genomics = bytesOf(100_000, "PAR1");
const files = { "genomics.parquet": genomics, "readme.txt": "small" };
const baseUri = "hipaa://trial-OncoDrug-734/";
const uri = `${baseUri}genomics.parquet`;
const text = `${baseUri}readme.txt`;

const describe: DescribeResource = ({ key }) =>
  key.endsWith(".parquet")
    ? {
        title: "Phase III Genomics Data",
        description: "Complete genomic sequencing data for trial OncoDrug-734.",
        mimeType: "application/parquet",
        audience: ["assistant"],
        priority: 0.9,
      }
    : { streamable: false };
const site = () => startSite({ files, sluice: { baseUri, describe } });

/** The entry of the article, for the file as it is. */
const entry = {
  uri,
  name: "genomics.parquet",
  title: "Phase III Genomics Data",
  description: "Complete genomic sequencing data for trial OncoDrug-734.",
  mimeType: "application/parquet",
  size: 100_000,
  annotations: { audience: ["assistant"], priority: 0.9, lastModified: expect.any(String) },
};

/** A folder lists in its own order. */
function byName(resources: unknown): { name: string }[] {
  return (resources as { name: string }[]).toSorted((a, b) => (a.name < b.name ? -1 : 1));
}

test.each(eras)(
  "a raw peer sees the article's Parquet file in list, read, stream and download (%s) [ARTICLE/4.2/resource-object] [SEP-2532/2.metadata/may-mark-resource]",
  async (era) => {
    await using served = await site();
    const { url } = served;
    const list = await call(url, "resources/list", {}, { era });
    expect(byName(list.message?.result?.["resources"])).toEqual([
      {
        ...entry,
        streamable: true,
        _meta: { [EXTENSION_ID]: { streamable: true, etag: expect.any(String) } },
      },
      {
        uri: text,
        name: "readme.txt",
        mimeType: "text/plain",
        size: 5,
        annotations: { lastModified: expect.any(String) },
        _meta: { [EXTENSION_ID]: { etag: expect.any(String) } },
      },
    ]);
    const named = (of: string) => ({ era, headers: { "mcp-name": of } });
    const read = await call(url, "resources/read", { uri }, named(uri));
    expect(read.message?.result?.["contents"]).toMatchObject([
      { uri, mimeType: "application/parquet", blob: genomics.toString("base64") },
    ]);
    const direct = await call(url, "resources/stream", { uri }, { era, streaming: {} });
    expect(direct.headers["content-type"]).toBe("application/parquet");
    expect(direct.bytes.equals(genomics)).toBe(true);
    const streaming = { prefer: ["downloadUrl" as const] };
    const told = await call(url, "resources/stream", { uri }, { era, streaming });
    const { downloadUrl, mimeType } = told.message!.result!;
    expect(mimeType).toBe("application/parquet");
    for (const method of ["GET", "HEAD"] as const) {
      const got = await send(method, String(downloadUrl));
      expect([got.status, got.headers["content-type"]]).toEqual([200, "application/parquet"]);
    }
    const refused = await call(url, "resources/stream", { uri: text }, { era, streaming: {} });
    expect(refused.message?.error).toMatchObject({
      message: "Stream not supported",
      data: { suggestion: "Use resources/read for this resource" },
    });
    const small = await call(url, "resources/read", { uri: text }, named(text));
    expect(small.message?.result?.["contents"]).toMatchObject([{ text: "small" }]);
  },
);

test.each(sdkNames)("%s sees it, too, and streams it", async (sdk) => {
  await using served = await site();
  const official = await connectOfficial(sdk, served.url);
  const resources = byName((await official.listResources()).resources);
  expect(resources[0]).toMatchObject({
    ...entry,
    _meta: { [EXTENSION_ID]: { streamable: true } },
  });
  expect(JSON.stringify(resources[1])).not.toContain("streamable");
  const { contents } = await official.readResource({ uri });
  expect(contents).toMatchObject([{ mimeType: "application/parquet" }]);
  await official.close();
  const client = await connect(sdk, served.url);
  for (const prefer of ["direct", "downloadUrl"] as const) {
    const opened = await streamResource(client, uri, { prefer: [prefer] });
    expect([opened.mode, opened.mimeType]).toEqual([prefer, "application/parquet"]);
    expect((await buffer(opened.body as never)).equals(genomics)).toBe(true);
  }
  await expect(streamResource(client, text)).rejects.toMatchObject({ code: "unsupported" });
  await client.close();
});
