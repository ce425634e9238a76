import { Busboy } from "@fastify/busboy";
import { Notifier } from "@sluice/core/async";
import { uploadError } from "../slots/upload-error.ts";

/** Takes what a parser finds in one part. */
export interface PartReceiver {
  /** A promise means that the next chunk has to wait. */
  data(chunk: Uint8Array): Promise<void> | undefined;
  end(): void;
}

/** Takes a multipart body apart. */
export interface MultipartParser {
  /** A promise means that the next chunk has to wait. Throws what went wrong before. */
  write(chunk: Uint8Array): Promise<void> | undefined;
  /** Waits until all of it was handed on. */
  end(): Promise<void>;
  /** Lets go of it. */
  destroy(): void;
}

/** Makes a parser for a body of this type; `onPart` is called as each part begins. */
export type CreateParser = (contentType: string, onPart: () => PartReceiver) => MultipartParser;

/** What is used of a parser of the busboy family, a writable stream of Node. */
export interface BusboyStream {
  on(event: string, listener: (...args: never[]) => void): unknown;
  write(chunk: Uint8Array): boolean;
  end(): void;
  destroy(): void;
}

/** What is used of the stream of a part. */
interface PartStream {
  on(event: string, listener: (chunk: Uint8Array) => void): unknown;
  pause(): void;
  resume(): void;
}

/** Bytes that wait before and behind a parser, at most, and at all parsers of this process together. */
const bufferBytes = 256 * 1024;
const bufferBytesOfAll = 4 * 1024 * 1024;
const leastBufferBytes = 32 * 1024;
let openParsers = 0;

/** Parses with @fastify/busboy. */
export const createFastifyParser: CreateParser = (contentType, onPart) => {
  openParsers += 1;
  const share = Math.floor(bufferBytesOfAll / openParsers);
  const highWaterMark = Math.max(leastBufferBytes, Math.min(bufferBytes, share));
  const parser = driveBusboy(
    new Busboy({
      headers: { "content-type": contentType },
      highWaterMark,
      fileHwm: highWaterMark,
      isPartAFile: () => true,
      limits: { headerPairs: 16, headerSize: 4_096 },
    }),
    onPart,
  );
  let isOpen = true;
  const close = (): void => {
    if (isOpen) openParsers -= 1;
    isOpen = false;
  };
  return {
    write: (chunk) => parser.write(chunk),
    end: () => parser.end().finally(close),
    destroy() {
      close();
      parser.destroy();
    },
  };
};

/**
 * Drives a parser of the busboy family, which says what it finds by `file` events with a stream each. An
 * error of the parser or of such a stream ends the body: unheard, either would end the process.
 */
export function driveBusboy(busboy: BusboyStream, onPart: () => PartReceiver): MultipartParser {
  let failure: { readonly error: unknown } | undefined;
  let isFull = false;
  let isFinished = false;
  const news = new Notifier();

  const fail = (error: unknown): void => {
    failure ??= { error };
    news.notify();
  };
  const failToParse = (cause: unknown): void =>
    fail(uploadError("invalid_argument", "the form is malformed", { cause }));
  const until = async (isReady: () => boolean): Promise<void> => {
    for (;;) {
      if (failure) throw failure.error;
      if (isReady()) return;
      await news.wait();
    }
  };

  busboy.on("error", failToParse);
  busboy.on("drain", () => {
    isFull = false;
    news.notify();
  });
  busboy.on("finish", () => {
    isFinished = true;
    news.notify();
  });
  busboy.on("file", (_field: string, stream: PartStream) => {
    stream.on("error", failToParse);
    let part: PartReceiver | undefined;
    try {
      part = failure ? undefined : onPart();
    } catch (error) {
      fail(error);
    }
    stream.on("end", () => part?.end());
    stream.on("data", (chunk: Uint8Array) => {
      if (failure) return;
      try {
        const busy = part?.data(chunk);
        if (!busy) return;
        stream.pause();
        busy.then(() => stream.resume(), fail);
      } catch (error) {
        fail(error);
      }
    });
  });

  return {
    write(chunk) {
      if (failure) throw failure.error;
      isFull = !busboy.write(chunk);
      // a parser that has finished takes nothing more, and may not say so
      return isFull ? until(() => !isFull || isFinished) : undefined;
    },
    async end() {
      busboy.end();
      await until(() => isFinished);
    },
    destroy() {
      fail(uploadError("interrupted", "the form was given up"));
      busboy.destroy();
    },
  };
}
