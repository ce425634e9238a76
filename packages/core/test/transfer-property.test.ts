import {
  advanceTransfer,
  startTransfer,
  type Transfer,
  type TransferEvent,
} from "@sluice/core/internal";
import * as fc from "fast-check";
import { expect, test } from "vitest";

const numRuns = process.env["SLUICE_DEEP"] ? 100_000 : 2_000;

const lies = ["start", "whole", "size", "splice", "short"] as const;

/** One thing that a server may do when it is asked. */
type Move =
  | {
      readonly kind: "serve";
      readonly bytes: number;
      /** Besides the truth: another place, the whole, another size, ignoring If-Range, ending early. */
      readonly lie: (typeof lies)[number] | "none";
    }
  | { readonly kind: "status"; readonly status: number }
  | { readonly kind: "cut" }
  | { readonly kind: "change" };

const anyMove: fc.Arbitrary<Move> = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      kind: fc.constant("serve" as const),
      bytes: fc.oneof(fc.integer({ min: 0, max: 5_000 }), fc.integer({ min: 0, max: 400_000 })),
      lie: fc.oneof(
        { weight: 8, arbitrary: fc.constant("none" as const) },
        {
          weight: 1,
          arbitrary: fc.constantFrom(...lies),
        },
      ),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({
      kind: fc.constant("status" as const),
      status: fc.constantFrom(401, 403, 404, 408, 410, 412, 416, 429, 500, 503),
    }),
  },
  { weight: 2, arbitrary: fc.constant({ kind: "cut" } as const) },
  { weight: 1, arbitrary: fc.constant({ kind: "change" } as const) },
);

interface Stretch {
  readonly version: number;
  /** Where the server took them from. */
  readonly start: number;
  readonly bytes: number;
}

interface Story {
  readonly transfer: Transfer;
  /** Version of each kept stretch of bytes, in order. */
  readonly kept: readonly Stretch[];
  readonly requests: number;
  /** Size of the version that was served last. */
  readonly size: number;
}

/** A client that keeps to the plan against a server that makes these moves, over and over. */
function play(size: number, tagged: boolean, reusable: boolean, moves: readonly Move[]): Story {
  let transfer = startTransfer();
  let kept: Stretch[] = [];
  let version = 1;
  let requests = 0;
  const step = (event: TransferEvent) => void (transfer = advanceTransfer(transfer, event));
  for (let n = 0; requests < 5_000; n++) {
    const move = moves[n % moves.length] ?? { kind: "cut" };
    if (transfer.receivedBytes === 0) kept = [];
    if (transfer.state === "requested") step({ type: "authorized", reusable });
    if (transfer.state === "interrupted") {
      step({ type: "resumed" });
      continue;
    }
    if (transfer.state === "verifying") step({ type: "verified" });
    if (transfer.state !== "authorized") break;
    requests++;
    if (move.kind === "change") version++;
    if (move.kind === "change" || move.kind === "cut")
      step({ type: "interrupted", reason: { kind: "network" }, random: 0.5 });
    else if (move.kind === "status")
      step({ type: "interrupted", reason: { kind: "status", status: move.status }, random: 0.5 });
    else {
      const asked = transfer.receivedBytes;
      // If-Range: another version is served whole
      const isSame = transfer.etag === `"${version}"`;
      const goesOn = (isSame && move.lie !== "whole") || move.lie === "splice";
      const start = move.lie === "start" ? asked + 1 : goesOn ? asked : 0;
      step({
        type: "response",
        start,
        size: move.lie === "size" ? size + 1 : size,
        ...(tagged && { etag: `"${version}"` }),
      });
      if ((transfer as Transfer).state !== "receiving") continue;
      if ((transfer as Transfer).receivedBytes === 0) kept = [];
      const bytes = Math.min(move.bytes, size - start);
      kept.push({ version, start, bytes });
      step({ type: "received", bytes });
      if (start + bytes === size || move.lie === "short") step({ type: "ended" });
      else step({ type: "interrupted", reason: { kind: "network" }, random: 0.5 });
    }
  }
  return { transfer, kept, requests, size };
}

function exception(seed: number, holds: (story: Story) => boolean): unknown {
  const property = fc.property(
    fc.oneof(fc.integer({ min: 0, max: 100 }), fc.integer({ min: 0, max: 1_000_000 })),
    fc.boolean(),
    fc.boolean(),
    fc.array(anyMove, { minLength: 1, maxLength: 30 }),
    (size, tagged, reusable, moves) => holds(play(size, tagged, reusable, moves)),
  );
  return fc.check(property, { numRuns, seed }).counterexample;
}

test(
  "a transfer is complete with every byte in its place, and only after it was verified",
  { tags: "slow" },
  () => {
    expect(
      exception(1, ({ transfer, kept, size }) => {
        let end = 0;
        for (const { start, bytes } of kept) end = start === end ? end + bytes : Number.NaN;
        return transfer.state !== "complete" || (transfer.receivedBytes === end && end === size);
      }),
    ).toBeNull();
  },
);

test("bytes of two versions never meet", () => {
  expect(
    exception(
      2,
      ({ kept }) =>
        new Set(kept.filter(({ bytes }) => bytes > 0).map(({ version }) => version)).size <= 1,
    ),
  ).toBeNull();
});

test("every transfer ends, complete or failed, whatever the server does", () => {
  expect(
    exception(3, ({ transfer }) => transfer.state === "complete" || transfer.state === "failed"),
  ).toBeNull();
});

test("a server that always cuts after 64 KiB gets its file through", () => {
  const { transfer, requests } = play(1_000_000, true, true, [
    { kind: "serve", bytes: 65_536, lie: "none" },
  ]);
  expect(transfer.state).toBe("complete");
  expect(requests).toBe(16);
});
