/**
 * Downloads one object with what the service's own users use, to nowhere, then tells what that took:
 * `node sdk-client.js SERVICE NAME WARM_UP_NAME`, the service as JSON.
 */
import { once } from "node:events";
import { GetObjectCommand, S3Client } from "@aws-sdk/client-s3";
import { ContainerClient, StorageSharedKeyCredential } from "@azure/storage-blob";
import { request } from "undici";
import { reportWork } from "./lib/report-work.ts";
import type { Service } from "./lib/service.ts";

const [text = "", name = "", warmUp = ""] = process.argv.slice(2);
const service = JSON.parse(text) as Service;

/** Opens an object; gives its body as the SDK does. */
type Open = (name: string) => Promise<NodeJS.ReadableStream>;

const openers: { [Kind in Service["kind"]]: (service: Service & { kind: Kind }) => Open } = {
  s3({ endpoint, credentials, bucket }) {
    const client = new S3Client({
      endpoint,
      credentials,
      region: "us-east-1",
      forcePathStyle: true,
    });
    return async (key) => {
      const { Body } = await client.send(new GetObjectCommand({ Bucket: bucket, Key: key }));
      return Body as NodeJS.ReadableStream;
    };
  },
  "azure-blob"({ url, account, key }) {
    const container = new ContainerClient(url, new StorageSharedKeyCredential(account, key));
    return async (blob) => {
      const { readableStreamBody } = await container.getBlobClient(blob).download();
      return readableStreamBody!;
    };
  },
  // without an SDK that keeps bodies as streams: the client that the plugin uses, and nothing else
  graph({ baseUrl, driveId, token }) {
    return async (path) => {
      const item = `${baseUrl}/v1.0/drives/${encodeURIComponent(driveId)}/root:/${path}:/content`;
      const headers = { authorization: `Bearer ${token}` };
      const answer = await request(item, { headers });
      await answer.body.dump();
      return (await request(String(answer.headers["location"]))).body;
    };
  },
};

const open = openers[service.kind](service as never);

async function read(object: string): Promise<number> {
  const body = await open(object);
  let bytes = 0;
  body.on("data", (chunk: Buffer) => (bytes += chunk.length));
  await once(body, "end");
  return bytes;
}

await read(warmUp);
await reportWork(() => read(name));
// connections that are kept alive would keep the process
process.exit();
