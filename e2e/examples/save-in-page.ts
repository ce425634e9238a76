// #region save
import type { Client } from "@modelcontextprotocol/client";
import { streamResource } from "@sluice/client";

/** Of a page: a `<progress>`, and what `showSaveFilePicker()` gives. */
export interface SavingParts {
  readonly bar: { value: number; max: number };
  readonly file: { createWritable(): Promise<WritableStream<Uint8Array>> };
}

/** A resource on its way to a file of the user. */
export interface Saving {
  pause(): void;
  resume(): void;
  cancel(): void;
  /** The file stays as it was unless every byte is right. */
  save(): Promise<void>;
}

export function createSaving(client: Client, uri: string, { bar, file }: SavingParts): Saving {
  const stop = new AbortController();
  const { signal } = stop;
  let goOn = (): void => {};
  let paused = Promise.resolve();

  return {
    pause: () => void (paused = new Promise((resolve) => (goOn = resolve))),
    resume: () => goOn(),
    cancel: () => stop.abort(),
    async save() {
      const { body, size } = await streamResource(client, uri, { signal });
      if (size !== undefined) bar.max = size;
      const meter = new TransformStream<Uint8Array, Uint8Array>({
        async transform(chunk, sink) {
          bar.value += chunk.length;
          sink.enqueue(chunk);
          // nothing more is read meanwhile
          await paused;
        },
      });
      await body.pipeThrough(meter).pipeTo(await file.createWritable(), { signal });
    },
  };
}
// #endregion
