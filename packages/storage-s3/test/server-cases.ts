import assert from "node:assert/strict";
import { Readable } from "node:stream";
import { gzipSync } from "node:zlib";
import {
  ChecksumAlgorithm,
  GetObjectCommand,
  HeadObjectCommand,
  ListObjectsV2Command,
  ListPartsCommand,
} from "@aws-sdk/client-s3";
import {
  expectRefusal,
  listAll,
  makeClient,
  type ServerCase,
  sign,
  startUpload,
} from "./server-bench.ts";

const partBytes = 5 * 1024 * 1024;

const content = Buffer.from("0123456789".repeat(500));

/** Cases that the stand-in and real servers are both held to. */
export const serverCases: readonly ServerCase[] = [
  {
    id: "signature-wrong",
    sentence: "a request signed with another secret is SignatureDoesNotMatch",
    notices: "accepts-any-signature",
    async check({ server, at }) {
      const { accessKeyId } = server.credentials;
      const client = makeClient(server, { accessKeyId, secretAccessKey: "another" });
      const get = () => client.send(new GetObjectCommand(at("any")));
      await expectRefusal(get, 403, "SignatureDoesNotMatch");
    },
  },
  {
    id: "signature-unknown",
    sentence: "a request of an unknown key is InvalidAccessKeyId",
    notices: "accepts-any-signature",
    async check({ server, at }) {
      const client = makeClient(server, { accessKeyId: "NOBODY", secretAccessKey: "x" });
      const get = () => client.send(new GetObjectCommand(at("any")));
      await expectRefusal(get, 403, "InvalidAccessKeyId");
    },
  },
  {
    id: "signature-skew",
    sentence: "a request signed 20 minutes ago is RequestTimeTooSkewed",
    notices: "accepts-any-signature",
    async check({ server, at }) {
      const client = makeClient(server, server.credentials, -20 * 60_000);
      const get = () => client.send(new GetObjectCommand(at("any")));
      await expectRefusal(get, 403, "RequestTimeTooSkewed");
    },
  },
  {
    id: "url-get",
    sentence: "a signed URL gives the object, whole and in ranges, to whoever has it",
    notices: "ignores-ranges",
    async check(bench) {
      await bench.put("a b+c.bin", content);
      const url = await sign(bench, "a b+c.bin", { expiresIn: 60 });
      const whole = await fetch(url);
      assert.equal(whole.status, 200);
      assert.ok(Buffer.from(await whole.arrayBuffer()).equals(content));
      const part = await fetch(url, { headers: { range: "bytes=10-19" } });
      assert.equal(part.status, 206);
      assert.equal(await part.text(), "0123456789");
    },
  },
  {
    id: "url-expired",
    sentence: "a signed URL is refused after its time",
    notices: "accepts-expired-urls",
    async check(bench) {
      await bench.put("expired.bin", content);
      const signingDate = new Date(Date.now() - 10_000);
      const url = await sign(bench, "expired.bin", { expiresIn: 1, signingDate });
      const response = await fetch(url);
      await response.text();
      assert.equal(response.status, 403);
    },
  },
  {
    id: "url-bound",
    sentence: "a signed URL opens no other object and allows no other method",
    notices: "accepts-any-signature",
    async check(bench) {
      await bench.put("one.bin", content);
      await bench.put("two.bin", content);
      const url = await sign(bench, "one.bin", { expiresIn: 60 });
      for (const response of [
        await fetch(url.replace("one.bin", "two.bin")),
        await fetch(url, { method: "PUT", body: "x" }),
      ]) {
        await response.text();
        assert.equal(response.status, 403);
      }
    },
  },
  {
    id: "url-overrides",
    sentence: "a signed URL sets the type and the disposition of its answer",
    notices: "ignores-overrides",
    async check(bench) {
      await bench.put("overrides.bin", content);
      const type = "application/x-special";
      const disposition = `attachment; filename="a \\"b\\".bin"; filename*=UTF-8''%E2%82%AC.bin`;
      const more = { ResponseContentType: type, ResponseContentDisposition: disposition };
      const { headers } = await fetch(await sign(bench, "overrides.bin", { expiresIn: 60 }, more));
      assert.equal(headers.get("content-type"), type);
      assert.equal(headers.get("content-disposition"), disposition);
    },
  },
  {
    id: "upload-framed",
    sentence: "the framing of a streamed upload does not belong to the object",
    notices: "keeps-framing",
    async check({ put, get, client, at }) {
      const chunks = [Buffer.alloc(10_000, 1), Buffer.alloc(20_000, 2), content];
      const whole = Buffer.concat(chunks);
      await put("framed.bin", Readable.from(chunks), { ContentLength: whole.length });
      assert.ok((await get("framed.bin")).equals(whole));
      const { ContentEncoding = "" } = await client.send(new HeadObjectCommand(at("framed.bin")));
      assert.equal(ContentEncoding, "");
    },
  },
  {
    id: "upload-small-chunks",
    sentence: "only the last chunk of a streamed upload may be smaller than 8 KiB",
    async check({ put }) {
      const more = { ContentLength: content.length };
      const Body = Readable.from([content.subarray(0, 3000), content.subarray(3000)]);
      await expectRefusal(() => put("small.bin", Body, more), 403, "InvalidChunkSizeError");
    },
  },
  {
    id: "upload-checked",
    sentence: "an upload whose checksum is of other bytes is refused",
    notices: "ignores-checksums",
    async check({ put, get }) {
      const wrong = Buffer.alloc(32, 1).toString("base64");
      await expectRefusal(
        () => put("wrong.bin", content, { ChecksumSHA256: wrong }),
        400,
        "BadDigest",
      );
      await expectRefusal(() => get("wrong.bin"), 404);
    },
  },
  ...(["CRC32", "CRC32C", "CRC64NVME", "SHA1", "SHA256"] as const).map((algorithm): ServerCase => ({
    id: `upload-${algorithm.toLowerCase()}`,
    sentence: `an upload may be protected by ${algorithm}, also one that is streamed`,
    async check({ put, get }) {
      const more = { ChecksumAlgorithm: ChecksumAlgorithm[algorithm] };
      await put("whole.bin", content, more);
      const Body = Readable.from([content]);
      await put("streamed.bin", Body, { ...more, ContentLength: content.length });
      for (const name of ["whole.bin", "streamed.bin"])
        assert.ok((await get(name)).equals(content));
    },
  })),
  {
    id: "checksum-kept",
    sentence: "the SHA-256 of an upload is kept, and told to whoever asks for it",
    notices: "ignores-checksums",
    async check({ put, client, at }) {
      await put("kept.bin", content, { ChecksumAlgorithm: "SHA256" });
      const command = new HeadObjectCommand({ ...at("kept.bin"), ChecksumMode: "ENABLED" });
      const { ChecksumSHA256, ChecksumType } = await client.send(command);
      assert.equal(Buffer.from(ChecksumSHA256 ?? "", "base64").length, 32);
      assert.equal(ChecksumType, "FULL_OBJECT");
    },
  },
  {
    id: "type-default",
    sentence: "an object without a type has the general one",
    async check({ put, client, at }) {
      await put("untyped.json", content);
      const { ContentType } = await client.send(new HeadObjectCommand(at("untyped.json")));
      assert.match(ContentType ?? "", /^(binary|application)\/octet-stream$/);
    },
  },
  {
    id: "coding-kept",
    sentence: "a stored coding is named and not taken off",
    async check({ put, get, client, at }) {
      const packed = gzipSync(content);
      await put("packed.txt", packed, { ContentEncoding: "gzip", ContentType: "text/plain" });
      assert.ok((await get("packed.txt")).equals(packed));
      const head = await client.send(new HeadObjectCommand(at("packed.txt")));
      assert.deepEqual([head.ContentEncoding, head.ContentType], ["gzip", "text/plain"]);
    },
  },
  {
    id: "range",
    sentence: "a range is a 206 that says which bytes of how many follow",
    notices: "ignores-ranges",
    async check({ put, client, at }) {
      await put("range.bin", content);
      for (const [Range, ContentRange, text] of [
        ["bytes=10-14", "bytes 10-14/5000", "01234"],
        ["bytes=4995-", "bytes 4995-4999/5000", "56789"],
        ["bytes=4998-9999", "bytes 4998-4999/5000", "89"],
        ["bytes=-3", "bytes 4997-4999/5000", "789"],
      ] as const) {
        const answer = await client.send(new GetObjectCommand({ ...at("range.bin"), Range }));
        assert.equal(answer.$metadata.httpStatusCode, 206);
        assert.equal(answer.ContentRange, ContentRange);
        assert.equal(await answer.Body?.transformToString(), text);
      }
    },
  },
  {
    id: "range-beyond",
    sentence: "a range that begins at the end is InvalidRange",
    notices: "ignores-ranges",
    async check({ put, get }) {
      await put("range.bin", content);
      await expectRefusal(() => get("range.bin", { Range: "bytes=5000-" }), 416, "InvalidRange");
    },
  },
  {
    id: "range-of-empty",
    sentence: "no range of an empty object is satisfiable",
    notices: "ignores-ranges",
    async check({ put, get }) {
      await put("empty.bin", Buffer.alloc(0));
      await expectRefusal(() => get("empty.bin", { Range: "bytes=0-" }), 416, "InvalidRange");
    },
  },
  {
    id: "read-condition",
    sentence:
      "If-Match with another tag is 412 and If-None-Match with the same 304, on GET and HEAD",
    notices: "ignores-read-conditions",
    async check({ put, client, at }) {
      const tag = await put("condition.bin", content);
      for (const Command of [GetObjectCommand, HeadObjectCommand]) {
        const ask = (more: object) => client.send(new Command({ ...at("condition.bin"), ...more }));
        await expectRefusal(() => ask({ IfMatch: '"another"' }), 412);
        await expectRefusal(() => ask({ IfNoneMatch: tag }), 304);
        const { ETag } = await ask({ IfMatch: tag });
        assert.equal(ETag, tag);
      }
    },
  },
  {
    id: "write-absent",
    sentence: "If-None-Match: * creates, and is PreconditionFailed where an object is",
    notices: "ignores-write-conditions",
    async check({ put, get }) {
      await put("new.bin", "first", { IfNoneMatch: "*" });
      const again = () => put("new.bin", "second", { IfNoneMatch: "*" });
      await expectRefusal(again, 412, "PreconditionFailed");
      assert.equal(String(await get("new.bin")), "first");
    },
  },
  {
    id: "write-match",
    sentence: "If-Match replaces only that version, and is 404 without an object",
    notices: "ignores-write-conditions",
    async check({ put, get }) {
      const tag = await put("match.bin", "first");
      await put("match.bin", "second", { IfMatch: tag });
      await expectRefusal(() => put("match.bin", "third", { IfMatch: tag }), 412);
      assert.equal(String(await get("match.bin")), "second");
      await expectRefusal(() => put("nothing.bin", "x", { IfMatch: tag }), 404);
    },
  },
  {
    id: "list-pages",
    sentence: "a walk through the pages visits every object once, in the order of UTF-8 bytes",
    notices: "loses-last-page",
    async check(bench) {
      const names = ["a", "b/c", "b0", "ﬀ", "😀"];
      for (const name of names.toReversed()) await bench.put(name, "x");
      assert.deepEqual(await listAll(bench, 2), names);
      assert.deepEqual(await listAll(bench, 100), names);
    },
  },
  {
    id: "list-encoding",
    sentence: "names with any characters are listed when URL encoding is asked for",
    notices: "ignores-url-encoding",
    async check(bench) {
      const names = ["a b+c%20d", "e&f<g>", "h\u0001i", "folder/", "ü"];
      for (const name of names) await bench.put(name, "x");
      assert.deepEqual((await listAll(bench, 100)).toSorted(), names.toSorted());
    },
  },
  {
    id: "list-token",
    sentence: "an invalid continuation token is InvalidArgument",
    async check({ client, server }) {
      const ContinuationToken = "no token";
      const list = () =>
        client.send(new ListObjectsV2Command({ Bucket: server.bucket, ContinuationToken }));
      await expectRefusal(list, 400, "InvalidArgument");
    },
  },
  {
    id: "parts",
    sentence: "an upload of several parts becomes one object with a tag that counts them",
    async check(bench) {
      const { send, complete } = await startUpload(bench, "parts.bin");
      await send(1, Buffer.alloc(partBytes, 1));
      await send(2, content);
      const { ETag } = await complete();
      assert.match(ETag ?? "", /^"[0-9a-f]{32}-2"$/);
      const bytes = await bench.get("parts.bin", { Range: `bytes=${partBytes - 2}-` });
      assert.ok(bytes.equals(Buffer.concat([Buffer.from([1, 1]), content])));
    },
  },
  {
    id: "parts-invisible",
    sentence: "an upload that is not complete is neither listed nor opened",
    notices: "shows-unfinished-uploads",
    async check(bench) {
      const { send, abort } = await startUpload(bench, "unfinished.bin");
      await send(1, content);
      assert.deepEqual(await listAll(bench, 10), []);
      await expectRefusal(() => bench.get("unfinished.bin"), 404, "NoSuchKey");
      await abort();
    },
  },
  {
    id: "parts-aborted",
    sentence: "an aborted upload is gone with its parts",
    async check(bench) {
      const { send, abort, complete, upload } = await startUpload(bench, "aborted.bin");
      await send(1, content);
      await abort();
      await expectRefusal(
        () => bench.client.send(new ListPartsCommand(upload)),
        404,
        "NoSuchUpload",
      );
      await expectRefusal(complete, 404, "NoSuchUpload");
    },
  },
  {
    id: "parts-small",
    sentence: "only the last part may be smaller than 5 MiB",
    async check(bench) {
      const { send, complete, abort } = await startUpload(bench, "small.bin");
      await send(1, content);
      await send(2, content);
      await expectRefusal(complete, 400, "EntityTooSmall");
      await abort();
    },
  },
  {
    id: "parts-order",
    sentence: "parts are put together in rising order only",
    async check(bench) {
      const { send, complete, abort, parts } = await startUpload(bench, "order.bin");
      await send(1, content);
      await send(2, content);
      parts.reverse();
      await expectRefusal(complete, 400, "InvalidPartOrder");
      await abort();
    },
  },
  {
    id: "parts-condition",
    sentence: "the condition of an upload is looked at when it is completed",
    notices: "ignores-write-conditions",
    async check(bench) {
      const { send, complete, abort } = await startUpload(bench, "raced.bin");
      await send(1, content);
      await bench.put("raced.bin", "the winner");
      await expectRefusal(() => complete({ IfNoneMatch: "*" }), 412, "PreconditionFailed");
      await abort();
      assert.equal(String(await bench.get("raced.bin")), "the winner");
    },
  },
  {
    id: "missing",
    sentence: "a missing object is NoSuchKey, and to HEAD 404 without a word",
    async check({ get, client, at }) {
      await expectRefusal(() => get("missing"), 404, "NoSuchKey");
      await expectRefusal(() => client.send(new HeadObjectCommand(at("missing"))), 404);
      const elsewhere = { ...at("missing"), Bucket: "no-such-bucket" };
      const get404 = () => client.send(new GetObjectCommand(elsewhere));
      await expectRefusal(get404, 404, "NoSuchBucket");
    },
  },
  {
    id: "long-name",
    sentence: "a name of 1024 bytes is kept, a longer one is KeyTooLongError",
    async check({ put, get, folder }) {
      const longest = "é".repeat(Math.floor((1024 - folder.length) / 2));
      await put(longest, content);
      assert.ok((await get(longest)).equals(content));
      await expectRefusal(() => put(`${longest}xx`, content), 400, "KeyTooLongError");
    },
  },
  {
    id: "cors",
    sentence: "a browser may read through a signed URL what the CORS rule of the bucket allows",
    async check(bench) {
      await bench.put("cors.bin", content);
      const url = await sign(bench, "cors.bin", { expiresIn: 60 });
      const origin = "https://app.example";
      const asked = {
        "access-control-request-method": "GET",
        "access-control-request-headers": "range",
      };
      const preflight = await fetch(url, { method: "OPTIONS", headers: { origin, ...asked } });
      assert.equal(preflight.headers.get("access-control-allow-origin"), origin);
      const response = await fetch(url, { headers: { origin, range: "bytes=0-0" } });
      await response.text();
      assert.equal(response.headers.get("access-control-allow-origin"), origin);
      assert.match(response.headers.get("access-control-expose-headers") ?? "", /Content-Range/i);
    },
  },
];
