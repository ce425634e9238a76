import { SluiceError } from "@sluice/core";
import { readMultipart } from "@sluice/binary-transfer/multipart";
import { expect, test } from "vitest";
import { randomNumbers } from "../../core/test/random-numbers.ts";

const count = process.env["SLUICE_DEEP"] ? 1_000_000 : 1_500;

// every part has bytes of its own, and mutations add none of them
const contents = [0x80, 0x90, 0xa0].map((first) =>
  String.fromCharCode(...Array.from({ length: 40 }, (_, at) => first + (at % 16))),
);

function messageOf(isCounted: boolean): string {
  const parts = contents.map((content, at) => {
    const length = isCounted ? `\r\nContent-Length: ${content.length}` : "";
    return `--b0undary\r\nContent-ID: <${at}>${length}\r\n\r\n${content}\r\n`;
  });
  return `${parts.join("")}--b0undary--\r\n`;
}

type Random = (below: number) => number;

const mutations: readonly ((text: string, random: Random) => string)[] = [
  (text, random) => splice(text, random(text.length), 1, String.fromCharCode(random(0x80))),
  (text, random) => splice(text, random(text.length), random(9), ""),
  (text, random) => text.slice(0, random(text.length)),
  (text, random) => splice(text, random(text.length), 0, "\r\n--b0undary"),
  (text, random) => splice(text, random(text.length), 0, "\r\n--b0undary--"),
  (text, random) => splice(text, random(text.length), 0, "\r\n"),
  (text, random) => splice(text, random(text.length), 0, "x".repeat(random(6_000))),
  (text, random) => text.replace(/Content-Length: \d+/, `Content-Length: ${random(200)}`),
  (text, random) => {
    const from = random(text.length);
    return splice(text, random(text.length), 0, text.slice(from, from + random(60)));
  },
];

function splice(text: string, at: number, removed: number, added: string): string {
  return text.slice(0, at) + added + text.slice(at + removed);
}

/** What came of a message: its parts by their id, as far as they ended; how it failed, if it did. */
async function outcomeOf(
  text: string,
  random: Random,
): Promise<{ whole: string[]; error?: unknown }> {
  const bytes = Buffer.from(text, "latin1");
  const most = 1 + random(80);
  let at = 0;
  const pull = async (): Promise<Uint8Array | undefined> => {
    if (at >= bytes.length) return undefined;
    const end = at + 1 + random(most);
    const piece = bytes.subarray(at, end);
    at = end;
    return piece;
  };
  const whole: string[] = [];
  try {
    const reader = readMultipart(pull, "b0undary");
    for (let part = await reader.next(); part; part = await reader.next()) {
      let content = "";
      for (let chunk = await part.read(); chunk; chunk = await part.read())
        content += Buffer.from(chunk).toString("latin1");
      whole.push(content);
    }
    return { whole };
  } catch (error) {
    return { whole, error };
  }
}

test("a message that is not what was sent has named errors, and ends", async () => {
  const random = randomNumbers(7);
  const texts = [messageOf(true), messageOf(false)];
  let refused = 0;
  for (let run = 0; run < count; run += 1) {
    let text = texts[run % 2]!;
    for (let times = random(3); times >= 0; times -= 1)
      text = mutations[random(mutations.length)]!(text, random);
    const { error } = await outcomeOf(text, random);
    if (error === undefined) continue;
    if (!SluiceError.is(error) || !["protocol", "interrupted"].includes(error.code))
      throw new Error(`run ${run}`, { cause: error });
    refused += 1;
  }
  // the mutations do reach the rules
  expect(refused).toBeGreaterThan(count / 10);
});
