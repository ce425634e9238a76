/** Bytes that come in pieces of any size, to be looked at before they are taken. */
export interface ByteFeed {
  /** What has come and was not taken. Valid until the next call. */
  readonly window: Uint8Array;
  /** Adds the next piece to the window; false at the end. */
  fill(): Promise<boolean>;
  /** Takes from the front of the window. */
  take(bytes: number): Uint8Array;
}

/** Makes a feed that begins with `window`. `next` gives a piece after the other, and `undefined` at the end. */
export function createByteFeed(
  window: Uint8Array,
  next: () => Promise<Uint8Array | undefined>,
): ByteFeed {
  return {
    get window() {
      return window;
    },
    async fill() {
      const piece = await next();
      if (!piece) return false;
      // what is left over is a few bytes of a line, as a rule none
      if (window.length === 0) window = piece;
      else {
        const joined = new Uint8Array(window.length + piece.length);
        joined.set(window);
        joined.set(piece, window.length);
        window = joined;
      }
      return true;
    },
    take(bytes) {
      const taken = window.subarray(0, bytes);
      window = window.subarray(bytes);
      return taken;
    },
  };
}
