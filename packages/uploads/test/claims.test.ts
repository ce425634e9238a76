import { readFile } from "node:fs/promises";
import type { Principal } from "@sluice/core";
import { expect, test } from "vitest";
import { QuestionStates } from "../src/ask/elicit-state.ts";
import { createFileUris } from "../src/files-sep-2631/file-uri.ts";
import { alice, bearer, bob, startUploadServer } from "./upload-server.ts";

/** Personal data that no file and no record may hold. */
const secret = "patient-4711";

/** The same user, as three requests describe her. */
const asNurse: Principal = { ...alice, scopes: ["send"], claims: { role: "nurse", secret } };
const asDoctor: Principal = { ...alice, scopes: [], claims: { role: "doctor", secret } };
const asPlain: Principal = { ...alice };

test("a file belongs to its user whatever the claims of each request are, and no record has them", async () => {
  const server = await startUploadServer({
    sluice: {
      principal: ({ header }) =>
        header("authorization") === "Bearer alice" ? asDoctor : { ...bob, claims: asNurse.claims },
    },
  });
  const { uploads, records, errors } = server;
  const terms = { accept: [], maxBytes: 100, maxFiles: 1 };
  const { url, uploadId } = await uploads.reserve(asNurse, terms);
  const put = (name: string): Promise<Response> =>
    fetch(url, { method: "PUT", headers: bearer(name), body: "a file" });
  // another user's claims open nothing
  expect((await put("bob")).status).toBe(404);
  expect((await put("alice")).status).toBe(201);
  const [received] = await uploads.received(asPlain, uploadId);
  const [file] = await uploads.confirm(asNurse, uploadId, [{ ...received! }]);
  expect(file).toMatchObject({ uploadId, size: 6 });
  const written = await Promise.all(
    (await server.files()).map(async (path) => path + (await readFile(path, "latin1"))),
  );
  expect(written.some((text) => text.includes("a file"))).toBe(true);
  const found = [...written, ...records.map((each) => JSON.stringify(each)), ...errors.map(String)];
  expect(found.filter((text) => text.includes(secret))).toEqual([]);
});

test("the state of a question and the URI of a file open in a request with other claims", async () => {
  const { sluice } = await startUploadServer();
  const states = new QuestionStates(sluice.host);
  const question = { message: "Which?", fields: { a: { type: "file" } } } as const;
  const state = { expiresAt: Date.now() + 60_000, slots: {} };
  const sealed = states.seal(state, { ...question, principal: asNurse });
  await expect(states.open(sealed, { ...question, principal: bob })).rejects.toThrow(
    "not one of ours",
  );
  expect(await states.open(sealed, { ...question, principal: asDoctor })).toEqual(state);

  const uris = createFileUris(sluice.host);
  const handle = { kind: "upload", uploadId: "u", expiresAt: Date.now() + 60_000 } as const;
  const uri = await uris.format(handle, { principal: asNurse, share: undefined });
  const other = uris.parse(uri, { ...bob, claims: asNurse.claims });
  await expect(other).rejects.toThrow("not one of ours");
  expect(await uris.parse(uri, asDoctor)).toEqual(handle);
});
