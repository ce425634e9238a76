import { expect, test, vi } from "vitest";

const encoder = new TextEncoder();
const line = "\r\n--line";
const form = encoder.encode(
  `--line\r\ncontent-disposition: form-data; name="file"; filename="a"\r\n\r\n\r\r\n--lin\r\n--lime${line}--\r\n`,
);

// workerd without Node's modules has no `Buffer`
test.each([false, true])(
  "a form cut anywhere is the same file (without Buffer: %s)",
  async (isBare) => {
    if (isBare) vi.stubGlobal("Buffer", undefined);
    vi.resetModules();
    const { createFormReader } = await import("../src/receive/form-reader.ts");
    for (let at = 1; at < form.length; at++) {
      let text = "";
      const reader = createFormReader("line", 1, () => ({
        data: (bytes) => void (text += new TextDecoder().decode(bytes)),
        end() {},
      }));
      void reader.write(form.subarray(0, at));
      void reader.write(form.subarray(at));
      reader.end();
      expect(text).toBe("\r\r\n--lin\r\n--lime");
    }
    vi.unstubAllGlobals();
  },
);
