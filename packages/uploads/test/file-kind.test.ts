import { expect, test } from "vitest";
import { createKindDetector } from "../src/lib/detect-kind.ts";
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
  ["no mark, no name", "hello", {}, "application/octet-stream"],
  ["a declared type without a mark", "a,b", { declaredType: "text/csv" }, "text/csv"],
  ["an extension without a mark", "a,b", { name: "a.csv" }, "text/csv"],
  ["another word for the type", jpeg, { declaredType: "image/jpg" }, "image/jpeg"],
  ["text by any other name", "{}", { declaredType: "text/plain", name: "a.json" }, "text/plain"],
  ["what is made with a container", zip, { declaredType: docx, name: "a.docx" }, docx],
  ["octets that have a mark", pdf, { declaredType: "application/octet-stream" }, "application/pdf"],
  ["an unknown extension", pdf, { name: "a.unknown" }, "application/pdf"],
  ["an SVG", "<?xml version='1.0'?><svg/>", { declaredType: "image/svg+xml" }, "image/svg+xml"],
])("%s", async ([, bytes, told, kind]) => {
  expect(await kindOf(bytes, told)).toBe(kind);
});

test.for<[string, string | Uint8Array, Told]>([
  ["a picture that is text", "hello", { declaredType: "image/png" }],
  ["a picture that is another", jpeg, { declaredType: "image/png" }],
  ["a name that says another type", png(200), { name: "a.pdf" }],
  ["a declared type that the name denies", "x", { declaredType: "text/csv", name: "a.docx" }],
  ["a program that is called a text", Buffer.from("7f454c4602010100", "hex"), { name: "a.txt" }],
  ["an archive that is called a picture", zip, { declaredType: "image/png" }],
  ["nothing at all that is called a picture", "", { declaredType: "image/png" }],
])("%s is refused", async ([, bytes, told]) => {
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
  expect(await takes("x", {}, ["text/*"])).toBe(false);
  // the extension alone does not make it one
  expect(await takes(jpeg, { name: "a.pdf" }, [".pdf"])).toBe(false);
});
