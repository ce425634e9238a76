import { SluiceError } from "@sluice/core";
import { createHttpExchange } from "../src/net/node/http-exchange.ts";

// reads one URL and tells how many bytes there were, or why there were none
const url = new URL(process.argv[2] ?? "");
const signal = AbortSignal.timeout(10_000);
try {
  const exchange = createHttpExchange();
  const answer = await exchange({
    method: "GET",
    url,
    headers: {},
    signal,
    scope: "any",
    connectMs: 5_000,
  });
  let bytes = 0;
  let lent = false;
  await answer.body.pump(
    (chunk, release) => {
      bytes += chunk.length;
      if (release) lent = true;
      release?.();
    },
    { blocks: 3, blockBytes: 2 ** 18 },
  );
  process.stdout.write(`${bytes}${lent ? " lent" : ""}`);
} catch (error) {
  process.stdout.write(SluiceError.is(error) ? error.code : String(error));
}
