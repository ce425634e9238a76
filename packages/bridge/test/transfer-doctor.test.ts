import { SluiceError } from "@sluice/core";
import type { DiagnoseOptions } from "@sluice/bridge";
import type { Diagnosis } from "@sluice/bridge/internal";
import { expect, test } from "vitest";
import { transferIn, TransferDoctor } from "../src/doctor/transfer-doctor.ts";
import { SendError } from "../src/upstream/send-fault.ts";

const url = new URL("https://a.example/mcp");
const save = { direction: "download", uri: "files://a/b" } as const;
const broken = new SluiceError("interrupted", "client: it broke");
const { signal } = new AbortController();
const message = "A proxy drops Range: have it pass on Range.";
const range: Diagnosis = {
  server: {} as never,
  findings: [{ cause: "range", message }],
  isComplete: true,
};

interface Patient {
  readonly doctor: TransferDoctor;
  /** What each diagnosis was told. */
  readonly asked: DiagnoseOptions[];
  /** Lets time pass. */
  readonly pass: (ms: number) => void;
}

function patient(answer: (options: DiagnoseOptions) => Promise<Diagnosis>): Patient {
  const asked: DiagnoseOptions[] = [];
  const timers: { readonly at: number; readonly call: () => void }[] = [];
  let time = 0;
  const doctor = new TransferDoctor(url, {
    trustedOrigins: ["https://cdn.example"],
    clock: {
      now: () => time,
      schedule: (call, ms) => {
        timers.push({ at: time + ms, call });
        return () => {};
      },
    },
    examine: (at, options) => {
      expect(at).toBe(url);
      asked.push(options);
      return answer(options);
    },
  });
  const pass = (ms: number): void => {
    time += ms;
    for (const timer of timers.splice(0)) if (timer.at <= time) timer.call();
  };
  return { doctor, asked, pass };
}

test("the first finding is what is said", async () => {
  const { doctor, asked } = patient(async () => range);
  expect(await doctor.causeOf(broken, save, signal)).toBe(message);
  expect(asked).toMatchObject([
    { uri: "files://a/b", direction: "download", trustedOrigins: ["https://cdn.example"] },
  ]);
});

test("one diagnosis runs at a time, and one a minute", async () => {
  const { doctor, asked, pass } = patient(async () => range);
  const both = [doctor.causeOf(broken, save, signal), doctor.causeOf(broken, save, signal)];
  expect(await Promise.all(both)).toEqual([message, undefined]);
  pass(59_000);
  expect(await doctor.causeOf(broken, save, signal)).toBeUndefined();
  pass(1_000);
  expect(await doctor.causeOf(broken, save, signal)).toBe(message);
  expect(asked).toHaveLength(2);
});

test.each([
  new SluiceError("untrusted", "client: it leads to http://169.254.169.254"),
  new SluiceError("permission_denied", "bridge: the user declined"),
  new SluiceError("invalid_argument", "bridge: pass uri"),
  new SluiceError("not_found", "client: none"),
  new SluiceError("too_large", "bridge: more than may be"),
  new SluiceError("no_space", "fs: full"),
  new SluiceError("internal", "client: the server's own fault"),
  Object.assign(new Error("refused"), { code: "EACCES" }),
  Object.assign(new Error("no such tool"), { name: "RpcError", code: -32_602 }),
])("a failure that no network can have caused is not diagnosed: %s", async (error) => {
  const { doctor, asked } = patient(async () => range);
  expect(await doctor.causeOf(error, save, signal)).toBeUndefined();
  expect(asked).toEqual([]);
});

test.each([
  new SluiceError("unavailable", "client: none"),
  new SluiceError("timeout", "client: none"),
  new SluiceError("corrupt", "client: others"),
  new SluiceError("too_large", "client: upload: larger (HTTP 413)", { origin: "http" }),
  Object.assign(new Error("No answer"), { name: "RpcError", code: -32_000 }),
  new SendError({ kind: "refused", reason: "HTTP 413", status: 413 }),
])("a failure that a network can cause is diagnosed: %s", async (error) => {
  const { doctor } = patient(async () => range);
  expect(await doctor.causeOf(error, save, signal)).toBe(message);
});

test("a diagnosis has the credentials of the newest message to the server, and no others", async () => {
  const { doctor, asked } = patient(async () => range);
  const fetch = doctor.watch(async () => new Response());
  const headers = { Authorization: "Bearer new", "x-team": "a", "Mcp-Session-Id": "s" };
  await fetch(url, { headers: { authorization: "Bearer old" } });
  await fetch(url, { headers: { ...headers, accept: "x", "content-type": "y" } });
  await fetch("https://signin.example/mcp", { headers: { authorization: "Basic other" } });
  await doctor.causeOf(broken, save, signal);
  expect(asked[0]?.headers).toEqual({ authorization: "Bearer new", "x-team": "a" });
});

test("a diagnosis that does not end is over after 5 s, and is aborted", async () => {
  const { doctor, asked, pass } = patient(() => new Promise(() => {}));
  const said = doctor.causeOf(broken, save, signal);
  await Promise.resolve();
  pass(5_000);
  expect(await said).toBeUndefined();
  expect(asked[0]?.signal?.aborted).toBe(true);
  expect(asked[0]?.timeoutMs).toBeLessThan(5_000);
});

test("a call that the host cancels ends with its reason", async () => {
  const { doctor } = patient(() => new Promise(() => {}));
  const cancelled = new AbortController();
  const said = doctor.causeOf(broken, save, cancelled.signal);
  cancelled.abort(new Error("enough"));
  await expect(said).rejects.toThrow("enough");
});

test("stays silent if a reachable server only took too long, and if the diagnosis fails", async () => {
  const slow = { cause: "connection", message: "a.example is not done within 4 s: …" } as const;
  const found = patient(async () => ({ server: {} as never, findings: [slow], isComplete: false }));
  expect(await found.doctor.causeOf(broken, save, signal)).toBeUndefined();
  const unreached = patient(async () => ({ findings: [slow], isComplete: false }));
  expect(await unreached.doctor.causeOf(broken, save, signal)).toBe(slow.message);
  const failing = patient(async () => Promise.reject(new Error("a fault")));
  expect(await failing.doctor.causeOf(broken, save, signal)).toBeUndefined();
});

test("a link is not opened again, which may use it up", () => {
  expect(transferIn("save_resource", { uri: "https://a.example/mcp/d/x" })).toEqual({
    direction: "download",
    uri: undefined,
  });
  expect(transferIn("save_resource", { uri: "files://a/b" })).toEqual(save);
  expect(transferIn("send_file", { path: "a" })).toEqual({ direction: "upload" });
});
