import { expect, test } from "vitest";
import { createKindDetector } from "../src/checks/detect-kind.ts";
import { png } from "./upload-server.ts";

interface Told {
  readonly name?: string;
  readonly declaredType?: string;
}

async function kindOf(
  bytes: string | Uint8Array,
  told: Told,
  accept: string[] = [],
): Promise<string> {
  const detector = createKindDetector(told, accept);
  await detector.add(Buffer.from(bytes as string, "latin1"));
  return detector.kind().catch((error: { code: string }) => error.code);
}

const jpeg = Buffer.from("ffd8ffe000104a46494600010100000100010000", "hex");
const pdf = "%PDF-1.7\n%\xe2\xe3\n";
const zip = Buffer.from("504b0304140000000800", "hex");
const docx = "application/vnd.openxmlformats-officedocument.wordprocessingml.document";

test.for<[string, string | Uint8Array, Told, string]>([
  ["bytes alone", png(200), {}, "image/png"],
  ["text without a name", "hello", {}, "text/plain"],
  ["bytes that nothing tells anything of", "\0\x01\x02", {}, "application/octet-stream"],
  ["a declared type without a signature", "a,b", { declaredType: "text/csv" }, "text/csv"],
  ["an extension without a signature", "a,b", { name: "a.csv" }, "text/csv"],
  ["another word for the type", jpeg, { declaredType: "image/jpg" }, "image/jpeg"],
  ["text by any other name", "{}", { declaredType: "text/plain", name: "a.json" }, "text/plain"],
  ["what is made with a container", zip, { declaredType: docx, name: "a.docx" }, docx],
  [
    "octets that have a signature",
    pdf,
    { declaredType: "application/octet-stream" },
    "application/pdf",
  ],
  ["an unknown extension", pdf, { name: "a.unknown" }, "application/pdf"],
  ["an SVG", "<?xml version='1.0'?><svg/>", { declaredType: "image/svg+xml" }, "image/svg+xml"],
])("%s", async ([, bytes, told, kind]) => {
  expect(await kindOf(bytes, told)).toBe(kind);
});

/** What a file is called that its bytes deny, and what it is. */
const contradictions: readonly [string, string | Uint8Array, Told, string][] = [
  ["a picture that is text", "hello", { declaredType: "image/png" }, "text/plain"],
  ["a picture that is another", jpeg, { declaredType: "image/png" }, "image/jpeg"],
  ["a name that says another type", png(200), { name: "a.pdf" }, "image/png"],
  ["a type that the name denies", "x", { declaredType: "text/csv", name: "a.docx" }, "text/csv"],
  ["a picture that is empty", "", { declaredType: "image/png" }, "application/octet-stream"],
];

test.for(contradictions)(
  "%s is taken for what it is where everything is accepted",
  async ([, bytes, told, kind]) => {
    expect(await kindOf(bytes, told)).toBe(kind);
    expect(await kindOf(bytes, told, ["*/*"])).toBe(kind);
  },
);

test.for(contradictions)(
  "%s is refused where types are asked for, whichever they are",
  async ([, bytes, told, kind]) => {
    const asked = ["image/*", "application/pdf", "text/*", ".docx", kind];
    expect(await kindOf(bytes, told, asked)).toBe("unsupported");
  },
);

test.for<[string, string | Uint8Array, Told]>([
  ["a program that is called a text", Buffer.from("7f454c4602010100", "hex"), { name: "a.txt" }],
  ["an archive that is called a picture", zip, { declaredType: "image/png" }],
])("%s is refused where everything is accepted", async ([, bytes, told]) => {
  expect(await kindOf(bytes, told)).toBe("unsupported");
});

test("a slot accepts types, ranges and extensions, and what is unknown only where everything is accepted", async () => {
  const takes = async (
    bytes: string | Uint8Array,
    told: Told,
    accept: string[],
  ): Promise<boolean> => (await kindOf(bytes, told, accept)) !== "unsupported";
  expect(await takes(jpeg, {}, ["image/*"])).toBe(true);
  expect(await takes(jpeg, {}, ["image/png", "image/jpg"])).toBe(true);
  expect(await takes(jpeg, {}, ["image/png"])).toBe(false);
  expect(await takes(pdf, { name: "A.PDF" }, [".pdf"])).toBe(true);
  expect(await takes(jpeg, { name: "a.jpg" }, [".pdf"])).toBe(false);
  expect(await takes("x", { name: ".pdf" }, [".pdf"])).toBe(false);
  expect(await takes("x", {}, ["*/*"])).toBe(true);
  expect(await takes("\0", {}, ["*/*"])).toBe(true);
  expect(await takes("\0", {}, ["text/*"])).toBe(false);
  expect(await takes("x", {}, ["image/*", "audio/*", "application/pdf"])).toBe(false);
  // the extension alone does not make it one
  expect(await takes(jpeg, { name: "a.pdf" }, [".pdf"])).toBe(false);
});

test.for<[string, Told, string[], string]>([
  ["a,b\n1,2", { declaredType: "text/plain", name: "a.csv" }, ["text/csv"], "text/csv"],
  ["{}", { declaredType: "text/plain", name: "a.json" }, ["application/json"], "application/json"],
  [
    "# a",
    { declaredType: "text/plain; charset=utf-8", name: "a.md" },
    ["text/markdown"],
    "text/markdown",
  ],
  // its own word counts first
  ["a,b", { declaredType: "text/plain", name: "a.csv" }, ["text/plain", "text/csv"], "text/plain"],
  ["a,b", { declaredType: "text/plain", name: "a.csv" }, ["text/*"], "text/plain"],
  ["a,b", { declaredType: "text/plain", name: "a.csv" }, ["application/json"], "unsupported"],
  ["a,b", { declaredType: "text/plain" }, ["text/csv"], "unsupported"],
  ["a,b", { declaredType: "text/html", name: "a.csv" }, ["text/csv"], "unsupported"],
  ["\0\x01", { declaredType: "text/plain", name: "a.csv" }, ["text/csv"], "unsupported"],
  ["hello", { declaredType: "text/plain", name: "a.png" }, ["image/png"], "unsupported"],
])(
  "%j as %j for %j: plain text is also what its name says",
  async ([bytes, told, accept, kind]) => {
    expect(await kindOf(bytes, told, accept)).toBe(kind);
  },
);
