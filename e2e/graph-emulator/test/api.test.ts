import { startGraphEmulator } from "@sluice/graph-emulator";
import { expect, test } from "vitest";
import { at, call } from "./graph-call.ts";
import { quickXorHash } from "../src/drive/drive.ts";

test("it takes its own tokens and no others", async () => {
  await using emulator = await startGraphEmulator();
  const url = `${emulator.origins.graph}/v1.0/drives/b!emulated/root`;
  for (const authorization of ["", "Bearer x", "Basic x"]) {
    const answer = await fetch(url, { headers: authorization ? { authorization } : {} });
    expect(answer.status).toBe(401);
    expect(answer.headers.get("www-authenticate")).toContain('error="invalid_token"');
    expect(await answer.json()).toMatchObject({ error: { code: "InvalidAuthenticationToken" } });
  }
  const { token } = await emulator.credential.getToken();
  const headers = { authorization: `Bearer ${token}` };
  expect((await fetch(url, { headers })).status).toBe(200);
  emulator.passTime(3_600_001);
  expect((await fetch(url, { headers })).status).toBe(401);
});

test("another drive is forbidden, and what is not there is not found", async () => {
  await using emulator = await startGraphEmulator();
  emulator.addDrive("b!other").put("a.txt", "x");
  expect((await call(emulator, "/drives/b!other/root")).status).toBe(403);
  expect((await call(emulator, at("no.txt"))).body.error.code).toBe("itemNotFound");
  expect((await call(emulator, "/drives/b!emulated/items/NO")).status).toBe(404);
  expect((await call(emulator, "/drives/b!emulated/root:/:")).status).toBe(400);
  expect((await call(emulator, "/drives/b!emulated")).body).toEqual({
    id: "b!emulated",
    driveType: "business",
  });
});

test("paths know no case; tags tell content from metadata; 304 knows both", async () => {
  await using emulator = await startGraphEmulator();
  const id = emulator.drive.put("Docs/A.txt", "x");
  const first = (await call(emulator, at("docs/a.TXT"))).body;
  expect(first).toMatchObject({ id, name: "A.txt", size: 1 });
  emulator.drive.touch("Docs/A.txt");
  const second = (await call(emulator, `/drives/b!emulated/items/${id}`)).body;
  expect(second.cTag).toBe(first.cTag);
  expect(second.eTag).not.toBe(first.eTag);
  const conditional = (tag: string) =>
    call(emulator, at("Docs/A.txt"), { headers: { "if-none-match": tag } });
  for (const tag of [second.cTag, second.eTag]) expect((await conditional(tag)).status).toBe(304);
  expect((await conditional(first.eTag)).status).toBe(200);
});

test("$select drops the annotation with the download URL, which is a new one each time", async () => {
  await using emulator = await startGraphEmulator();
  emulator.drive.put("a.txt", "x");
  const url = "@microsoft.graph.downloadUrl";
  const [one, two] = [
    (await call(emulator, at("a.txt"))).body,
    (await call(emulator, at("a.txt"))).body,
  ];
  expect(one[url]).not.toBe(two[url]);
  const selected = await call(emulator, `${at("a.txt")}?$select=id,${url}`);
  expect(Object.keys(selected.body)).toEqual(["id"]);
});

test("a page has a link to the next one, which works only as it is", async () => {
  await using emulator = await startGraphEmulator({ pageSize: 2 });
  for (const name of ["c", "a", "b"]) emulator.drive.put(name, name);
  const first = (await call(emulator, "/drives/b!emulated/root/children?$select=name")).body;
  expect(first.value).toEqual([{ name: "a" }, { name: "b" }]);
  const link: string = first["@odata.nextLink"];
  const path = link.slice(`${emulator.origins.graph}/v1.0`.length);
  expect((await call(emulator, path)).body).toEqual({ value: [{ name: "c" }] });
  const rebuilt = path.replace("%2b", "%2B");
  expect((await call(emulator, rebuilt)).status).toBe(400);
});

test("/content redirects files, whatever the range, and refuses everything else", async () => {
  await using emulator = await startGraphEmulator();
  emulator.drive.put("a.txt", "x");
  emulator.drive.putFolder("folder");
  emulator.drive.putPackage("Notes");
  emulator.drive.put("virus", "x", { malware: true });
  const content = (name: string) =>
    call(emulator, `${at(name)}:/content`, { headers: { range: "bytes=0-0" } });
  const answer = await content("a.txt");
  expect(answer.status).toBe(302);
  expect(answer.headers.get("location")).toContain(emulator.origins.download);
  expect((await content("folder")).status).toBe(404);
  expect((await content("Notes")).status).toBe(405);
  const refused = await content("virus");
  expect(refused.status).toBe(403);
  expect(refused.headers.get("x-virus-infected")).toBe("Emulated.A");
});

test("/beta streams ranges itself; earlier versions have content, the current one has not", async () => {
  await using emulator = await startGraphEmulator();
  emulator.drive.put("a.txt", "first");
  emulator.drive.put("a.txt", "second");
  const stream = { version: "beta", headers: { range: "bytes=1-3" } };
  expect((await call(emulator, `${at("a.txt")}:/contentStream`, stream)).body).toBe("eco");
  expect((await call(emulator, `${at("a.txt")}:/contentStream`)).status).toBe(404);
  const versions = (await call(emulator, `${at("a.txt")}:/versions`)).body.value;
  expect(versions.map(({ id }: { id: string }) => id)).toEqual(["2.0", "1.0"]);
  const earlier = await call(emulator, `${at("a.txt")}:/versions/1.0/content`);
  expect(await (await fetch(earlier.headers.get("location") ?? "")).text()).toBe("first");
  expect((await call(emulator, `${at("a.txt")}:/versions/2.0/content`)).status).toBe(400);
  expect((await call(emulator, `${at("a.txt")}:/versions/9.0/content`)).status).toBe(404);
});

test("changes: a beginning, pages, removals without names, and an end of memory", async () => {
  await using emulator = await startGraphEmulator({ pageSize: 2 });
  for (const name of ["a", "b", "c"]) emulator.drive.put(name, name);
  const follow = async (path: string) => {
    const items = [];
    for (let next = path; ;) {
      const { status, body } = await call(emulator, next);
      if (status !== 200) return { status, items, link: "" };
      items.push(...body.value);
      const link: string = body["@odata.nextLink"] ?? body["@odata.deltaLink"];
      next = link.slice(`${emulator.origins.graph}/v1.0`.length);
      if (body["@odata.deltaLink"]) return { status, items, link: next };
    }
  };
  const all = await follow("/drives/b!emulated/root/delta");
  expect(all.items.map(({ name }) => name)).toEqual(["root", "a", "b", "c"]);
  expect(all.items.every(({ cTag, parentReference }) => !cTag && !parentReference?.path)).toBe(
    true,
  );
  const latest = await follow("/drives/b!emulated/root/delta?token=latest");
  expect(latest).toMatchObject({ items: [], link: all.link });
  emulator.drive.remove("b");
  const { items } = await follow(all.link);
  expect(items).toEqual([expect.objectContaining({ deleted: { state: "deleted" } })]);
  expect(items[0]).not.toHaveProperty("name");
  emulator.forgetChanges();
  expect((await follow(all.link)).status).toBe(410);
  expect((await follow("/drives/b!emulated/root/delta")).status).toBe(200);
});

test("a batch has at most 20 calls and answers them in another order", async () => {
  await using emulator = await startGraphEmulator();
  emulator.drive.put("a.txt", "x");
  const requests = [
    { id: "1", method: "GET", url: at("a.txt") },
    { id: "2", method: "GET", url: at("no.txt") },
    { id: "3", method: "GET", url: `${at("a.txt")}:/content` },
  ];
  const send = (list: object[]) =>
    call(emulator, "/$batch", { method: "POST", body: JSON.stringify({ requests: list }) });
  const { status, body } = await send(requests);
  expect(status).toBe(200);
  expect(body.responses.map(({ id, status: inner }: any) => [id, inner])).toEqual([
    ["3", 302],
    ["2", 404],
    ["1", 200],
  ]);
  expect(body.responses[0].headers.Location).toContain(emulator.origins.download);
  expect((await send(Array.from({ length: 21 }, () => requests[0] ?? {}))).status).toBe(400);
});

test("writes obey conditions, and names that are reserved are refused", async () => {
  await using emulator = await startGraphEmulator();
  emulator.drive.put("a.txt", "x");
  const { eTag } = (await call(emulator, at("a.txt"))).body;
  const put = (path: string, headers = {}) =>
    call(emulator, `${at(path)}:/content`, { method: "PUT", body: "new", headers });
  expect((await put("a.txt", { "if-match": '"other"' })).status).toBe(412);
  expect((await put("a.txt", { "if-match": eTag })).status).toBe(200);
  expect((await put("deep/er/b.txt")).status).toBe(201);
  for (const name of ["a%22b", "a%3Ab", "a.", "a%20", "%20a"])
    expect((await put(name)).status).toBe(400);
  expect((await put("x".repeat(401))).body.error.innerError.code).toBe("pathIsTooLong");
  const rename = { method: "PATCH", body: JSON.stringify({ name: "c.txt" }) };
  expect((await call(emulator, at("a.txt"), rename)).body.name).toBe("c.txt");
  expect((await call(emulator, at("c.txt"), { method: "DELETE" })).status).toBe(204);
  expect((await call(emulator, at("c.txt"))).status).toBe(404);
});

// vectors of rclone, whose implementation has met the service for years
test.each([
  ["", "AAAAAAAAAAAAAAAAAAAAAAAAAAA="],
  ["Sg==", "SgAAAAAAAAAAAAAAAQAAAAAAAAA="],
  ["/aNzzCFPS/A=", "/RjFHJgRgicsAR4ACAAAAAAAAAA="],
  ["2fuxhBJXtpWFe8dOfdGeHw==", "O9tHLAghgSvYohKFyMMxnNCHaHg="],
  ["T6LYJIfDh81JrAK309H2JMJTXis=", "zBTHrspn3mEcohlJdIUAbjGNaNg="],
  [
    "Mb7EGva2rEE5fENDL85P+BsapHEEjv2/siVhKjvAQe02feExVOQSkfmuYzU/kTF1MaKjPmKF/w+cbvwfdWL8aQ==",
    "n1anP5NfvD4XDYWIeRPW3ZkPv1Y=",
  ],
])("the QuickXorHash of %j is %s", (input, hash) => {
  expect(quickXorHash(Buffer.from(input, "base64"))).toBe(hash);
});
