/**
 * Passes objects of a storage service on, as a server does it by hand: `node storage-proxy.js WAY SERVICE`, the
 * service as JSON. `pipeline` is the service's own SDK and `pipeline(body, response)`, `files-sdk` the same with that
 * library.
 */
import { createServer } from "node:http";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { GetObjectCommand, S3Client } from "@aws-sdk/client-s3";
import { ContainerClient, StorageSharedKeyCredential } from "@azure/storage-blob";
import { Files } from "files-sdk";
import { s3 as s3Adapter } from "files-sdk/s3";
import { request as fetchBytes } from "undici";
import { listen } from "../lib/program.ts";
import type { Service } from "../lib/service.ts";

const [way = "", text = ""] = process.argv.slice(2);
const service = JSON.parse(text) as Service;

/** Opens an object; gives its body as the SDK does. */
type Open = (name: string) => Promise<NodeJS.ReadableStream>;

const openers: { [Kind in Service["kind"]]: (service: Service & { kind: Kind }) => Open } = {
  s3({ endpoint, credentials, bucket }) {
    const place = { endpoint, credentials, region: "us-east-1", forcePathStyle: true };
    if (way === "files-sdk") {
      const files = new Files({ adapter: s3Adapter({ ...place, bucket }) });
      return async (key) => {
        const file = await files.download(key, { as: "stream" });
        return Readable.fromWeb(file.stream() as never);
      };
    }
    const client = new S3Client(place);
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
      const answer = await fetchBytes(item, { headers });
      await answer.body.dump();
      return (await fetchBytes(String(answer.headers["location"]))).body;
    };
  },
};

const open = openers[service.kind](service as never);

const server = createServer((request, response) => {
  const serve = async (): Promise<void> => {
    const body = await open(request.url!.slice(1));
    await pipeline(body, response);
  };
  serve().catch(() => response.destroy());
});
listen(server);
